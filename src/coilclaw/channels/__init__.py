"""Where people talk to the agent: the terminal prompt and the conversation at it.

Owns words on a screen. Never decides and never runs anything: it is handed functions to call.
"""
