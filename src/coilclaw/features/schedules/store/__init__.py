"""The SQL of schedules."""
