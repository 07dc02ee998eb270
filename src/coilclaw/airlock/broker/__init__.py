"""The broker: the only way out of a box with granted domains."""
