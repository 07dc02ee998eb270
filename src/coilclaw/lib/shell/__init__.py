"""Parses shell commands: what one would touch, run and destroy, from its text only."""
