"""Cron expressions: parsed, described in words, and evaluated in any time zone."""
