"""Models that answer: the scripted mock, any OpenAI-compatible server, a fallback chain and a router.

Owns how a request is written for a model and how its answer is read, strictly and within bounds.
Never opens a socket, runs a tool, reads the environment or decides anything: it is handed a Transport.
"""
