"""Pull requests on GitHub."""
