"""The owner's files: skills, the system prompt, and files of the workspace that are shown."""
