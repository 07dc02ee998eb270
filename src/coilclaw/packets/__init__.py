"""Every typed message and value, ids, canonical bytes and hashing, the error tree, and the ports.

Owns the types that rooms share. Imports no other room, does no I/O, decides nothing.
"""
