"""Notifications: what the owner is told to look at, and the agent reaching out."""
