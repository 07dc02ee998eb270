"""Cron expressions: read, said in words, and turned into moments of any zone."""
