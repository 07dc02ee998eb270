"""Built-in tools: a typed argument struct, an async function, and a declaration of what it does to the world.

Owns what the agent can call. Touches files, processes and sockets only through the granted Context.
"""
