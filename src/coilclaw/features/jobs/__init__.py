"""Jobs: work in the background, from its goal to its evidence.

Owns where a job stands and when it goes on. Never asks a model, never decides a call, never runs a tool: steps are
handed in.
"""
