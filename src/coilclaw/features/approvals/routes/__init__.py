"""Routes of approvals: a file for each noun."""
