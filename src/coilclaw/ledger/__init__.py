"""Receipts, their hash chain, the log that copies them, signed heads, audit events, and their verification.

Owns the proof of what happened. Never decides, never runs a tool, never changes a receipt once written.
"""
