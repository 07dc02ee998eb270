"""Pure libraries: reading shell commands, cron expressions, places in JSON. They know packets alone."""
