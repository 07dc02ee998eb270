"""Skills: how the owner wants something done. Found by code before a model is asked; a skill only ever narrows."""
