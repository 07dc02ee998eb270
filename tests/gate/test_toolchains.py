"""Folders of programs that the owner lends to boxes: run from there, read-only, and nothing else of them."""

import shutil
import tempfile
from pathlib import Path

import pytest

from coilclaw.config.load import load
from coilclaw.packets.card import Answer
from coilclaw.packets.errors import CoilclawError
from coilclaw.runtime.checkup import examine
from coilclaw.sandbox.box import open_box
from coilclaw.sandbox.toolchains import lent


@pytest.fixture
def folder():
    """A folder of programs; not below /tmp, where boxes have their own."""
    made = Path(tempfile.mkdtemp(prefix=".coilclaw-toolchain-", dir=Path.home()))
    (made / "bin").mkdir()
    for name, text in (("frob", "echo frobbed by $0"), ("python3", "echo lent python")):
        (made / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (made / "bin" / name).chmod(0o755)
    yield Path(made)
    shutil.rmtree(made)


def home_with(sample, *folders, **more):
    home = sample(security__toolchains=tuple(folders), **more)
    home.owner.answer = Answer(approved=True)
    return home


async def test_its_programs_come_first_and_a_link_of_an_environment_leads_there(sample, folder):
    home = home_with(sample, folder, security__allowed_commands=("frob", "python3", "sh", "touch"))
    home.app.open_box = lambda: open_box(hide=(str(home.home.root),))
    (home.workspace / ".venv/bin").mkdir(parents=True)
    (home.workspace / ".venv/bin/python").symlink_to(folder / "bin/python3")
    tried = {
        "frob": f"frobbed by {folder}/bin/frob", "python3 x": "lent python", ".venv/bin/python x": "lent python",
    }  # fmt: skip
    for number, (command, said) in enumerate(tried.items()):
        outcome = await home.call("shell", key=f"k{number}", command=command)
        assert outcome.result.success, outcome.result
        assert said in outcome.result.output
    written = await home.call("shell", key="w", command=f"sh -c 'touch {folder}/bin/new'")
    assert not written.result.success
    assert not (folder / "bin/new").exists()


async def test_nothing_is_asked_about_them_but_what_is_asked_of_any_program(sample, folder):
    home = home_with(sample, folder, security__autonomy="supervised")
    home.owner.answer = Answer(approved=None)
    (home.workspace / ".venv/bin").mkdir(parents=True)
    (home.workspace / ".venv/bin/python").symlink_to(folder / "bin/python3")

    async def decided(command):
        decision = (await home.call("shell", key=command, command=command)).action.decision
        return decision.verdict, decision.risk

    assert await decided(".venv/bin/python -m pytest") == ("ask", "R2")
    assert await decided(f"{folder}/bin/frob") == ("deny", "R3")  # not on the list
    assert await decided(f"cp a {folder}/bin/frob") == ("deny", "R3")  # a place to read from
    read = await home.call("file_read", key="r", path=str(folder / "bin/frob"))
    assert read.action.decision.verdict == "deny"  # lent to boxes, not to the file tools


async def test_without_lending_it_the_link_leads_outside(sample, folder):
    home = home_with(sample, security__autonomy="full")
    (home.workspace / ".venv/bin").mkdir(parents=True)
    (home.workspace / ".venv/bin/python").symlink_to(folder / "bin/python3")
    assert (await home.call("shell", command=".venv/bin/python x")).action.decision.verdict == "deny"


@pytest.mark.parametrize("place", ["bin/rm", "rm"])
def test_a_folder_with_a_forbidden_program_is_refused(folder, place):
    (folder / place).symlink_to("/nowhere")
    with pytest.raises(CoilclawError, match="has the forbidden program rm"):
        lent((str(folder),), ("dd", "rm"))


def test_a_folder_that_is_gone_is_left_out_and_doctor_tells(sample, folder):
    assert lent((str(folder / "gone"),), ())[0] == ()
    home = home_with(sample, folder, folder / "gone")
    probe = next(
        each for each in examine(home.app, lambda: home.app.db.reader, short=True) if each.name == "toolchains"
    )
    assert (probe.state, probe.detail) == ("warn", f"not there: {folder}/gone")


@pytest.mark.parametrize("written", ["/usr/lib", "/", "~", "{home}/keys", "{workspace}/tools", "~/.ssh", "/tmp/x"])
def test_what_must_not_be_shown_cannot_be_lent(sample, written):
    home = sample()
    user = home.folder / "user"
    (user / ".ssh").mkdir(parents=True)
    config = home.home.config_file
    path = written.format(home=home.home.root, workspace=home.workspace)
    config.write_text(config.read_text().replace("[security]", f'[security]\ntoolchains = ["{path}"]', 1))
    with pytest.raises(CoilclawError, match="cannot be lent"):
        load(home.home, home.environ)


def test_a_new_list_holds_at_once(sample, folder):
    home = home_with(sample)
    assert home.app.root.places.toolchains == ()
    config = home.home.config_file
    config.write_text(config.read_text().replace("[security]", f'[security]\ntoolchains = ["{folder}"]', 1))
    home.app.live.refresh(at_once=True)
    assert home.app.root.places.toolchains == (str(folder),)
