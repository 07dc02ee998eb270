"""Commands of approvals, each imported when it runs."""
