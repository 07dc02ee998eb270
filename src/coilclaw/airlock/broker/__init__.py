"""The broker: the one way out of a box with granted domains."""
