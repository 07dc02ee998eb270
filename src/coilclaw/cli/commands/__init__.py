"""Commands that belong to no feature; each is imported when it runs."""
