"""Places in the workspace that are not the agent's to change, by the first part of their path."""

RUNTIME_ONLY = (".git", "audit", "jobs")
"""Only the runtime itself writes there."""
OWNER_ONLY = ("SYSTEM.md", "policies", ".github", "agent")
"""They govern the agent: only the owner changes them (lane C)."""
