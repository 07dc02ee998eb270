"""Mail and calendar at Google, under two identities: the owner's account and the bot's own. See docs/google.md."""
