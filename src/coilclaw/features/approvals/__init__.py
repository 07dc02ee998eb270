"""Approvals: what waits for the owner, the owner's answers, and every action there is."""
