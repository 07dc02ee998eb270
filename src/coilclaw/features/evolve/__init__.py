"""An agent that works on its own code in a container: its repository, its box, its model, and what the owner decides.

It never runs what the agent wrote outside that container. The watcher (`watcher/`) is a process of its own that imports
nothing of CoilClaw; `template/` is what a new repository starts with.
"""
