"""Side-by-side measurements of the product against what limits it; `scripts/bench` runs them. Never a timed test."""
