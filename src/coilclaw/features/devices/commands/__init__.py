"""Commands of devices, each imported when it runs."""
