"""CoilClaw: an autonomous agent for one owner that can be left alone."""

__version__ = "0.1.0"
