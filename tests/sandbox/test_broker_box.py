"""What a box that was granted domains can reach, tried from inside, in every tier and for every user."""

import shutil

import pytest

from tests.sandbox.broker_harness import World, world, worlds
from tests.sandbox.conftest import missing

__all__ = ["world", "worlds"]


def test_a_granted_host_is_reached_through_the_proxy_by_an_ordinary_client(world: World) -> None:
    if not shutil.which("curl"):
        missing("curl")
    reply = world.curl(f"{world.secure}/hello")
    assert reply.text == "reached /hello "
    assert reply.names == ["files.test"]
    (line,) = reply.lines
    assert (line["principal"], line["host"], line["port"]) == ("box", "files.test", world.port)
    assert (line["verdict"], line["code"], line["status"]) == ("pass", "OK", 200)
    assert line["bytes"] > 100
    assert len(line["sha256"]) == 64
