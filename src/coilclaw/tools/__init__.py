"""Built-in tools: a typed argument struct, an async function, and a declaration of what it does to the world.

Owns what the agent can ask for. Never touches a file, a process or a socket except through the granted Context.
"""
