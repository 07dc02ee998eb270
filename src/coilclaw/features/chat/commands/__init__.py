"""Commands of chat, each imported when it runs."""
