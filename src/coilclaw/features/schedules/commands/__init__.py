"""Commands of schedules, each imported when it runs."""
