"""Pure libraries: shell commands, cron expressions, positions in JSON, text edits. They import only packets."""
