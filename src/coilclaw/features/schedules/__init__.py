"""Schedules: the registry, the dispatcher, the owner's edits, previews and follow-ups."""
