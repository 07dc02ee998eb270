"""Routes of status: a file for each noun."""
