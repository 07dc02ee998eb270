"""Routes of sops: a file for each noun."""
