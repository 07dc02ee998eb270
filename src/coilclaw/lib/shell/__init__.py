"""Reading shell commands: what one would touch, run and destroy, told from its text alone."""
