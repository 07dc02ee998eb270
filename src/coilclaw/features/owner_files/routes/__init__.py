"""Routes of owner files: a file for each noun."""
