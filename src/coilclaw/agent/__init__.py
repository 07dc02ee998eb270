"""The turn loop: an owner's message in, an answer out, every proposed call through the gate.

Owns the conversation with the model. Never runs a tool itself, never opens a box or a socket.
"""
