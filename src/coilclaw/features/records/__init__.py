"""Records: the audit, receipts, and whether the chain of them holds."""
