"""Procedures (SOPs): fixed steps, read from a file and taken one by one through the gate."""
