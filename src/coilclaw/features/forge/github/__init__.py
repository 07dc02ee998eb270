"""Pull requests on GitHub: shown, reviewed and merged there. The local repository stays the truth."""
