"""Routes of devices: a file for each noun."""
