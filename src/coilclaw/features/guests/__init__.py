"""Guests: outside programs whose tools the owner let in, as plugins or MCP servers.

Owns what a guest offers, the owner's pin of it, and every call to it. It never lowers what the owner set: a guest's
own claims are shown and change nothing, and whatever differs from the pin is withheld.
"""
