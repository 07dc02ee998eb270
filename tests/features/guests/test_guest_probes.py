"""What the doctor says about guests that were let in; it starts none of them."""

import msgspec
import pytest

from coilclaw.app import EXTENSIONS
from coilclaw.features.guests.plugin_files import copy_of
from coilclaw.features.guests.probes import guest_probes
from tests.features.guests.test_plugins import let_in, plugin
from tests.features.guests.world import Guest


def probed(app):
    return guest_probes(app, app.db.reader)


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


async def test_a_guest_that_is_what_was_approved_is_well_and_is_not_started(made):
    guest, _ = made()
    assert probed(guest.app) == []  # not let in yet
    await guest.approve()
    started = len(guest.home.box.specs)
    (probe,) = probed(guest.app)
    assert (probe.name, probe.state) == ("guest sum", "ok")
    assert "2 tools" in probe.detail
    assert probe in EXTENSIONS.probes(guest.app, lambda: guest.app.db.reader)
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
