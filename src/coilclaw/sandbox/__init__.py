"""Boxes, their limits and granted files: the only room that starts processes.

Owns the walls a command runs behind. It never decides whether something may run,
never runs weaker than asked, and never keeps state: what cannot be held is refused with the remedy.
"""
