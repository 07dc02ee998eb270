"""Boxes, their limits and granted files: the only room that starts processes.

Owns the isolation of commands. It never decides whether something may run,
never runs weaker than requested, and keeps no state: what it cannot isolate it refuses, with the remedy.
"""
