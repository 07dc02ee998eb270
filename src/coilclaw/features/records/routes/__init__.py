"""Routes of records: a file for each noun."""
