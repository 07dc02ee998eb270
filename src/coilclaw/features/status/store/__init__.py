"""The SQL of status."""
