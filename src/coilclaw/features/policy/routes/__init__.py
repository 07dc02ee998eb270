"""Routes of policy: a file for each noun."""
