"""Chat: conversations, messages and turns, from the terminal and over HTTP; uploads, artifacts and memory."""
