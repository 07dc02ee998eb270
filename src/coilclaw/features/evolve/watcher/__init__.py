"""The watcher: launches the agent, judges its starts, moves its branches. Standard library only."""
