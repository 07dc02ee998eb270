"""Boxes that guests run in: the fixtures of tests/sandbox."""

from tests.sandbox.conftest import box, interpreters, servers  # noqa: F401
from tests.sandbox.open_harness import opener  # noqa: F401
