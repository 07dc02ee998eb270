"""Tasks of a coding agent's daily life: a small repository each, what the model does with it, and what it takes."""
