"""The CoilClaw that runs install: packed from the one that is running, bound by its hash, put there by the owner."""

import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import msgspec
import pytest

from coilclaw.features.forge.actions.packing import LOCK, packed_program
from coilclaw.packets.action import ToolCall
from coilclaw.runtime.owner_calls import OwnerCalls

BIN = Path(sys.executable).parent


@pytest.mark.slow
def test_pip_installs_it_by_its_hash_and_nothing_else(tmp_path):
    packed = packed_program()
    for path, data in ((packed.path, packed.wheel), (LOCK, packed.lock.splitlines(keepends=True)[0])):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    install = [
        BIN / "pip", "install", "--quiet", "--no-index", "--no-deps", "--require-hashes", "--only-binary", ":all:",
        "--target", tmp_path / "made", "-r", LOCK,
    ]  # fmt: skip
    done = subprocess.run(install, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ran = subprocess.run(
        [BIN / "python", "-v", tmp_path / "made/bin/coilclaw", "--version"], capture_output=True, text=True,
        env={"PYTHONPATH": str(tmp_path / "made")},
    )  # fmt: skip
    assert packed.path.split("-")[1] in ran.stdout, ran.stderr[-2000:]
    assert f"{tmp_path}/made/coilclaw/cli/__init__.py" in ran.stderr
    (tmp_path / packed.path).write_bytes(packed.wheel + b"x")
    assert subprocess.run(install, cwd=tmp_path, capture_output=True).returncode != 0


def test_the_same_program_gives_the_same_bytes_and_carries_no_lock_of_its_own():
    packed = packed_program()
    assert packed == packed_program()
    names = zipfile.ZipFile(BytesIO(packed.wheel)).namelist()
    assert "coilclaw/templates/workflows/execute.yml" in names
    assert not [name for name in names if name.endswith(".pyc") or name.startswith("/") or ".." in name]
    pinned = [line for line in packed.lock.decode().splitlines() if not line.startswith((" ", "#"))]
    assert len(pinned) > 20
    assert all("--hash=" in line or line.endswith("\\") for line in pinned)


async def test_the_owner_puts_it_into_the_repository_and_nobody_else(desk):
    here = desk().here
    app, packed = here.app, packed_program()
    calls = OwnerCalls(app, here.background.conveyor)
    call = ToolCall.of("bot_pack", msgspec.to_builtins(packed.args))
    asked = await calls.make(call, by="terminal", key=None)
    assert (asked.status, asked.decision.lane) == ("PENDING", "C")
    assert packed.args.wheel in here.app.tools["bot_pack"].summary(packed.args)
    assert not packed.stands_in(app.workspace)
    await here.home.approve(asked.action_id)
    assert packed.stands_in(app.workspace)
    other = msgspec.structs.replace(packed.args, wheel="0" * 64)
    asked = await calls.make(ToolCall.of("bot_pack", msgspec.to_builtins(other)), by="terminal", key=None)
    assert (await here.home.approve(asked.action_id)).result.code == "CHANGED_MEANWHILE"
