"""Coding sessions: boxed terminals in checkouts of their own, watched and joined from anywhere."""
