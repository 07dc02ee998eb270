"""The routes by subject: each file holds the controllers of one noun and says what they are given."""
