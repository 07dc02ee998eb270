"""Notifications: what the owner is told to look at, how it reaches them, and the agent reaching out."""
