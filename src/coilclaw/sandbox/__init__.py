"""Boxes, their limits, and the airlock: the only room that starts processes or opens sockets.

Owns the walls a command runs behind and the way bytes leave this machine. It never decides whether something may run,
never runs weaker than asked, and never keeps state: what cannot be held is refused with the remedy.
"""
