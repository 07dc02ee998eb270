"""Coding programs without a screen: each speaks lines of JSON over pipes, and asks there before it acts."""
