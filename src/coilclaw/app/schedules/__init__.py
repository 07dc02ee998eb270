"""Schedules, put together from an App: the clockwork, the owner's edits, and how they are shown."""
