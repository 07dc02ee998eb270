"""Boxes that the broker is tried with: the fixtures of tests/sandbox."""

from tests.sandbox.conftest import interpreters  # noqa: F401
