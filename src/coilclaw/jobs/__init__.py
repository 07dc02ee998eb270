"""Work in the background: the life of a job from its goal to its evidence, and the worker that moves jobs along.

Owns where a job stands and when it goes on. Never asks a model, never decides a call, never runs a tool: steps are
handed in.
"""
