"""The routes of coding sessions."""
