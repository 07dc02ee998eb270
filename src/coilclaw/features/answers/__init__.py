"""Standing answers: listing those the owner gave, and revoking them. Only an answer to a card makes one."""
