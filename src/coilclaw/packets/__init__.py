"""Every typed message and value, ids, canonical bytes and hashing, the error tree, and the ports.

Owns the words the rooms share. Imports no other room, does no input or output, decides nothing.
"""
