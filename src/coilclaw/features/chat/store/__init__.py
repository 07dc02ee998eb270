"""The SQL of chat."""
