"""Tier C: Podman's container within a box. What the agent that works on itself can do in it: tests/features/evolve."""

import os

import pytest

from coilclaw.packets.box import BoxLimits, BoxMount, BoxSpec
from coilclaw.packets.errors import BoxUnavailable, ToolError
from coilclaw.sandbox import podman
from coilclaw.sandbox.box import open_box, probe_tiers
from tests.missing import lacks
from tests.sandbox.conftest import processes_with

pytestmark = pytest.mark.slow
LIMITS = BoxLimits(wall_seconds=60, cpu_seconds=60)


@pytest.fixture
def container():
    if not podman.program():
        lacks("Podman with crun", "Install the packages podman and crun.")
    return open_box(hide=(), prefer="C")


def spec(folder, command, **fields):
    given = {"workspace": str(folder), "cwd": str(folder), "limits": LIMITS, **fields}
    return BoxSpec(command=command, **given)


async def test_a_command_in_a_container_ends_as_in_every_box(container, tmp_path):
    result = await container.run(spec(tmp_path, "echo out; echo err >&2; touch made; exit 7"))
    assert (result.tier, result.end, result.exit_code) == ("C", "exited", 7)
    assert (result.stdout, result.stderr) == (b"out\n", b"err\n")
    assert (tmp_path / "made").stat().st_uid == os.geteuid()
    assert (await container.run(spec(tmp_path, ("no-such-program",)))).exit_code == 127


async def test_a_container_that_takes_too_long_is_killed_with_all_that_podman_started(container, tmp_path):
    token = f"pod-{os.getpid()}-{tmp_path.name}"
    limits = BoxLimits(wall_seconds=3, cpu_seconds=60)
    result = await container.run(spec(tmp_path, f"setsid sleep 600 & sleep 600; : {token}", limits=limits))
    assert result.end == "timeout"
    assert not processes_with(token)


@pytest.mark.parametrize(
    "asked",
    [
        {"read_only": ("kept",)},
        {"hidden": ("kept",)},
        {"workspace_noexec": True},
        {"allowed_binaries": ("sh",)},
        {"forbidden_binaries": ("git",)},
    ],
)
async def test_what_a_container_would_not_hold_is_refused_and_not_run(container, tmp_path, asked):
    (tmp_path / "kept").write_text("kept")
    with pytest.raises(ToolError, match="Podman cannot"):
        await container.run(spec(tmp_path, "touch ran", **asked))
    assert not (tmp_path / "ran").exists()


async def test_mounts_keep_what_they_allow_one_within_the_other(container, tmp_path):
    for name in ("work", "outer/inner/deep"):
        (tmp_path / name).mkdir(parents=True)
    mounts = tuple(
        BoxMount(source=str(tmp_path / name), at=f"/data/{name}", writable=writable)
        for name, writable in (("outer", True), ("outer/inner", False), ("outer/inner/deep", True))
    )
    script = "cd /data/outer; for f in a inner/b inner/deep/c; do touch $f && echo $f; done 2>/dev/null; mv inner x"
    result = await container.run(spec(tmp_path / "work", script, mounts=mounts))
    assert result.stdout.split() == [b"a", b"inner/deep/c"]
    assert (tmp_path / "outer" / "inner").is_dir()


def test_the_doctor_tries_the_container_or_says_that_it_is_not_installed(container):
    found = {probe.name: probe for probe in probe_tiers() if probe.name.startswith("tier C")}
    assert {name: probe.state for name, probe in found.items()} == {"tier C": "ok", "tier C calls": "ok"}, found


def test_without_podman_a_container_is_refused_and_ordinary_boxes_are_not(monkeypatch):
    monkeypatch.setattr(podman, "PODMAN", ())
    with pytest.raises(BoxUnavailable, match="Podman is not installed"):
        open_box(hide=(), prefer="C")
    assert open_box(hide=(), container=True).tier in {"A", "B"}
