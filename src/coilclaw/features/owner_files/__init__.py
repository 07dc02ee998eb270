"""The owner's files: the system prompt, and files of the workspace that are shown."""
