"""A toy feature, written as CONTRIBUTING.md says: it counts how often somebody knocked."""
