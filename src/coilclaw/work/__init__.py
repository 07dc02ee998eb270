"""The engine of background work: what claims work, runs it, and winds it down."""
