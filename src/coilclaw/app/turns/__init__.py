"""Turns, put together from an App: taken in, written down, spoken, and ended."""
