"""Commands of records, each imported when it runs."""
