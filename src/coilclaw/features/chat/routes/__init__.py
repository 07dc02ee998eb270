"""Routes of chat: a file for each noun."""
