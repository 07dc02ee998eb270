"""A box that cannot be held to its domains does not start: whoever must make its listener is tried here as broken."""

import sys
from pathlib import Path

import pytest

from coilclaw.airlock import Airlock, Listing
from coilclaw.packets.box import BoxSpec
from coilclaw.packets.errors import BoxUnavailable, ToolError
from coilclaw.packets.ids import utc_now
from coilclaw.sandbox import box_listener
from coilclaw.sandbox.box import ChosenBox, _Candidate, open_box, reaching, tools
from coilclaw.sandbox.fake_box import FakeBox
from tests.missing import lacks
from tests.sandbox.conftest import BUBBLEWRAP

SOURCE = Path(box_listener.__file__).parents[2]
ELSEWHERE = f"""
import sys
sys.path.insert(0, "{SOURCE}")
from coilclaw.sandbox import box_listener
try:
    box_listener.hand_over(int(sys.argv[1]), (3128,))
except OSError:
    pass
"""


@pytest.fixture
def airlock() -> Airlock:
    return Airlock(Listing.build(allowed_domains=["example.org"]), log=lambda _: None, clock=utc_now)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def spec(workspace: Path, *domains: str) -> BoxSpec:
    return BoxSpec(command="touch ran", workspace=str(workspace), cwd=str(workspace), domains=domains)


def python_that(tmp_path: Path, instead: str) -> str:
    """An interpreter that does something else when it should make the listener."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\ncase "$*" in */box_listener.py*) {instead};; esac\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    return str(script)


@pytest.mark.parametrize("fault", ["exit 0", "echo no; exit 1", "elsewhere"])
async def test_without_a_listener_in_the_boxs_own_namespace_nothing_starts(
    tmp_path: Path, workspace: Path, airlock: Airlock, fault: str
) -> None:
    if not tools().bwrap:
        lacks(*BUBBLEWRAP)
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE)
    fault = f"exec {sys.executable} -I -S {tmp_path}/elsewhere.py $5" if fault == "elsewhere" else fault
    box = open_box(hide=(), prefer="A", python=python_that(tmp_path, fault))
    with pytest.raises(BoxUnavailable) as caught:
        await reaching(box, airlock).run(spec(workspace, "example.org"))
    assert "domains" in caught.value.message
    assert caught.value.remedy
    assert not (workspace / "ran").exists()


async def test_walls_without_a_network_namespace_are_not_enough(workspace: Path, airlock: Airlock) -> None:
    box = ChosenBox([_Candidate("Landlock alone", "B", namespaces=False)], hide=(), tools=tools())
    with pytest.raises(BoxUnavailable):
        await reaching(box, airlock).run(spec(workspace, "example.org"))
    assert not (workspace / "ran").exists()


async def test_a_box_without_walls_or_without_a_broker_refuses_domains(workspace: Path, airlock: Airlock) -> None:
    for box in (reaching(open_box(hide=(), unsafe=True), airlock), open_box(hide=())):
        with pytest.raises(ToolError) as caught:
            await box.run(spec(workspace, "example.org"))
        assert (caught.value.code, caught.value.begun) == ("BOX_CANNOT_HOLD", False)
    assert not (workspace / "ran").exists()


def test_a_fake_box_is_handed_back_as_it_is(airlock: Airlock) -> None:
    fake = FakeBox()
    assert reaching(fake, airlock) is fake
