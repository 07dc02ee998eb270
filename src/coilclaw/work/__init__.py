"""The background engine: claims work, runs it, and winds it down."""
