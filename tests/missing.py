"""What a machine may lack. Tests that need it are left out and one plain line at the end says so; CI insists."""

import os
import socket
from collections import Counter
from collections.abc import Iterable
from typing import NoReturn

import pytest

MARK = "this machine lacks "


def lacks(what: str, remedy: str) -> NoReturn:
    """Leave this test out because of what is not here; in CI that is a failure."""
    if os.environ.get("CI"):
        pytest.fail(f"CI must have {what}. {remedy}", pytrace=False)
    pytest.skip(f"{MARK}{what}. {remedy}")


def without_model_servers(ports: Iterable[int]) -> None:
    """Leave this test out where a model server of the owner's would be found and taken."""
    for port in ports:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                lacks(f"a free port {port}", "Stop what answers there, such as a model server, and run this again.")


def left_out(reasons: list[str]) -> list[str]:
    """A line for each thing that is missing: how many tests, what, and how to get it."""
    counted = Counter(reason.partition(MARK)[2] for reason in reasons if MARK in reason)
    return [
        f"Left out {number} test{'' if number == 1 else 's'}: {MARK}{what}" for what, number in sorted(counted.items())
    ]
