"""What the doctor says about guests that were let in; unless it is in a hurry it starts each server once."""

import asyncio
import subprocess
import sys

import msgspec
import pytest

from coilclaw.app import EXTENSIONS
from coilclaw.features.guests.plugin_files import copy_of
from coilclaw.features.guests.probes import guest_probes
from coilclaw.packets.box import BoxResult
from coilclaw.sandbox.box import open_box
from tests.features.guests.mcp_harness import error
from tests.features.guests.test_plugins import ECHO, let_in, plugin
from tests.features.guests.world import Guest


def probed(app):
    return guest_probes(app, app.db.reader, start=False)


async def started(app):
    """As the doctor does it: beside the event loop."""
    return await asyncio.to_thread(guest_probes, app, app.db.reader, start=True)


@pytest.fixture
def made(sample, tmp_path):
    """Makes the guest `sum`, whose program is a file of the test's own."""

    def make(**given):
        program = tmp_path / "server" / "bin" / "server"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        overrides = {key: given.pop(key) for key in [*given] if "__" in key or key == "environ"}
        guest = Guest(sample, server={"command": (str(program),), **given}, **overrides)
        return guest, program

    return make


def give(app, **change):
    """Change what `config.toml` gives to the guest."""
    server = msgspec.structs.replace(app.config.mcp.servers["sum"], **change)
    mcp = msgspec.structs.replace(app.config.mcp, servers={"sum": server})
    app.config = msgspec.structs.replace(app.config, mcp=mcp)


async def test_a_guest_that_is_what_was_approved_is_well_and_in_a_hurry_not_started(made):
    guest, _ = made()
    assert probed(guest.app) == []  # not let in yet
    await guest.approve()
    started = len(guest.home.box.specs)
    (probe,) = probed(guest.app)
    assert (probe.name, probe.state) == ("guest sum", "ok")
    assert "2 tools" in probe.detail
    assert probe in EXTENSIONS.probes(guest.app, lambda: guest.app.db.reader, True)
    assert len(guest.home.box.specs) == started
    await guest.owner.disable("sum")
    assert probed(guest.app) == []


async def test_a_changed_program_is_told_with_the_way_to_look_at_it(made):
    guest, program = made()
    await guest.approve()
    program.write_text("#!/bin/sh\n# another\n")
    (probe,) = probed(guest.app)
    assert (probe.state, "not the one that was approved" in probe.detail) == ("warn", True)
    assert "coilclaw mcp approve sum" in probe.remedy
    program.unlink()
    (probe,) = probed(guest.app)
    assert (probe.state, "there is no program" in probe.detail) == ("warn", True)


async def test_a_changed_table_of_the_configuration_is_told(made):
    guest, _ = made()
    await guest.approve()
    give(guest.app, memory_mb=2048)
    (probe,) = probed(guest.app)
    assert (probe.state, "not given what was approved" in probe.detail) == ("warn", True)


async def test_a_secret_that_is_not_set_is_told_by_its_name(made):
    guest, _ = made(env=("SUM_TOKEN",), environ={"SUM_TOKEN": "t" * 20})
    await guest.approve()
    assert probed(guest.app)[0].state == "ok"
    guest.app.environ.pop("SUM_TOKEN")
    (probe,) = probed(guest.app)
    assert (probe.state, "coilclaw secret set SUM_TOKEN" in probe.remedy) == ("warn", True)


async def test_a_host_that_is_no_longer_allowed_is_told(made):
    guest, _ = made(domains=("api.example.com",), security__allowed_domains=("api.example.com",))
    await guest.approve()
    assert probed(guest.app)[0].state == "ok"
    app = guest.app
    security = msgspec.structs.replace(app.config.security, allowed_domains=())
    app.config = msgspec.structs.replace(app.config, security=security)
    (probe,) = probed(app)
    assert (probe.state, "api.example.com" in probe.detail) == ("warn", True)
    assert "allowed_domains" in probe.remedy


async def test_a_folder_that_is_gone_is_told(made, tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    guest, _ = made(read=(str(notes),))
    await guest.approve()
    assert probed(guest.app)[0].state == "ok"
    notes.rmdir()
    (probe,) = probed(guest.app)
    assert (probe.state, "does not exist" in probe.detail) == ("warn", True)


async def test_a_plugin_is_compared_with_the_copy_that_was_approved(sample, tmp_path):
    home = sample()
    offer = await let_in(home, plugin(tmp_path / "p"))
    (probe,) = probed(home.app)
    assert (probe.name, probe.state) == ("guest echo-plugin", "ok")
    program = copy_of(home.app, offer) / "echo-plugin"
    program.write_text("#!/bin/sh\necho planted\n")
    (probe,) = probed(home.app)
    assert (probe.state, "plugin approve echo-plugin" in probe.remedy) == ("warn", True)


# Starting each


async def test_each_server_is_started_once_and_ended_with_receipts(made):
    guest, _ = made()
    await guest.approve()
    before = len(guest.home.box.specs)
    (probe,) = await started(guest.app)
    assert (probe.state, "started once" in probe.detail) == ("ok", True)
    assert len(guest.home.box.specs) == before + 1
    assert [receipt.tool for receipt in guest.home.receipts()][-2:] == ["guest_start", "guest_end"]
    assert guest.home.box.opened[-1]._result.done()  # nothing of it goes on


async def test_a_plugin_is_started_without_a_call_and_without_what_calls_are_given(sample, tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    home = sample(security__allowed_domains=("api.example.com",))
    given = ECHO.replace("[[tools]]", f'domains = ["api.example.com"]\nread = ["{notes}"]\n[[tools]]')
    await let_in(home, plugin(tmp_path / "p", given))
    before = len(home.box.specs)
    (probe,) = await started(home.app)
    assert (probe.state, "starts" in probe.detail) == ("ok", True)
    (spec,) = home.box.specs[before:]
    assert (spec.stdin, spec.domains, [mount.at for mount in spec.mounts]) == (b"", (), ["/guest/plugin"])
    assert [receipt.tool for receipt in home.receipts()][-2:] == ["guest_start", "guest_end"]


@pytest.mark.parametrize(("end", "code"), [("exited", 127), ("exited", 126), ("timed_out", 0)])
async def test_a_plugin_that_does_not_start_is_told(sample, tmp_path, end, code):
    home = sample()
    await let_in(home, plugin(tmp_path / "p"))
    home.box._answer = lambda spec: BoxResult(
        end=end, exit_code=code, stdout=b"", stderr=b"no interpreter", seconds=0.1, tier="A", reason=""
    )
    (probe,) = await started(home.app)
    assert (probe.state, "it does not start" in probe.detail, "no interpreter" in probe.detail) == ("warn", True, True)
    assert home.receipts()[-1].status == "failed"


@pytest.mark.slow
async def test_a_real_plugin_starts_in_its_box_and_one_without_its_interpreter_does_not(sample, tmp_path):
    home = sample()
    home.app.open_box = lambda: open_box(hide=(str(home.home.root),))
    await let_in(home, plugin(tmp_path / "p"))
    (probe,) = await started(home.app)
    assert probe.state == "ok", probe
    await let_in(home, plugin(tmp_path / "q", program="#!/nonexistent/interpreter\n"))
    (probe,) = await started(home.app)
    assert (probe.state, "it does not start" in probe.detail) == ("warn", True), probe


async def test_one_that_does_not_start_is_told_with_a_remedy(made):
    guest, _ = made()
    await guest.approve()
    guest.scripted.reactions["initialize"] = lambda message: [error(message["id"], -32000, "no\nlicence")]
    (probe,) = await started(guest.app)
    assert (probe.state, "it does not start" in probe.detail, "\n" in probe.detail) == ("warn", True, False)
    assert "coilclaw mcp log sum" in probe.remedy


async def test_one_that_says_nothing_is_given_up(made, monkeypatch):
    guest, _ = made()
    await guest.approve()
    guest.scripted.reactions["initialize"] = lambda message: []
    monkeypatch.setattr("coilclaw.features.guests.probes.START_SECONDS", 0.2)
    (probe,) = await started(guest.app)
    assert (probe.state, "did not start within" in probe.detail) == ("warn", True)
    last = guest.home.receipts()[-1]
    assert (last.tool, last.status, last.code) == ("guest_start", "failed", "CANCELLED")


async def test_one_that_offers_something_else_is_told(made):
    guest, _ = made()
    await guest.approve()
    guest.tools = guest.tools[:1]
    (probe,) = await started(guest.app)
    assert (probe.state, "Keep" in probe.detail) == ("warn", True)
    assert "coilclaw mcp approve sum" in probe.remedy


async def test_a_changed_program_and_everything_under_estop_is_not_started(made):
    guest, program = made()
    await guest.approve()
    before = len(guest.home.box.specs)
    guest.app.estop.engage("enough", "2026-03-01T12:00:00.000Z")
    await started(guest.app)
    guest.app.estop.clear()
    program.write_text("#!/bin/sh\n# another\n")
    (probe,) = await started(guest.app)
    assert probe.state == "warn"
    assert len(guest.home.box.specs) == before


DOCTOR = """
import os, sys
from pathlib import Path
from coilclaw.app import EXTENSIONS
from coilclaw.config import Home, load
from coilclaw.runtime.runtime import Runtime
home, environ = Home(Path(os.environ["COILCLAW_HOME"])), dict(os.environ)
app = Runtime(home, load(home, environ).config, environ, lambda *_: None, extensions=EXTENSIONS)
EXTENSIONS.probes(app, lambda: app.db.reader, False)
app.close()
print(*sys.modules)
"""


async def test_without_guests_the_doctor_imports_nothing_that_runs_them(sample):
    home = sample()
    environ = {"COILCLAW_HOME": str(home.home.root), "HOME": str(home.folder), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", DOCTOR]
    run = await asyncio.to_thread(subprocess.run, command, env=environ, capture_output=True, text=True, check=True)
    loaded = {name.rpartition(".")[2] for name in run.stdout.split() if name.startswith("coilclaw.features.guests.")}
    assert not loaded & {"probes", "running", "mcp_client", "program", "plugin_files"}
