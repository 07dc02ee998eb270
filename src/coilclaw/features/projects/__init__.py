"""Projects: the owner's own folders that the agent may work in, added and removed by the owner; commits in them."""
