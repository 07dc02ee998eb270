"""Models that answer: the scripted mock, servers with three APIs, a fallback chain and a router.

Owns how requests to models are written and how answers are parsed, strictly and within limits.
Never opens a socket, runs a tool, reads the environment or decides anything: it is given a Transport.
"""
