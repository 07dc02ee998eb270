"""The database: one SQLite file, its migrations, one writer, and the rows of threads, messages, memory and actions.

Owns how rows are laid out, written durably and queried. Never decides, runs or signs anything.
"""
