"""Folders of programs that the owner lends to boxes: run from there, read-only, and nothing else of them."""

import shutil
import tempfile
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

from coilclaw.cli.event_words import further_rows
from coilclaw.config.load import load
from coilclaw.features.chat.store.message_page import calls_standing
from coilclaw.features.projects import commands
from coilclaw.features.projects.folder import check_folder
from coilclaw.gate.turn import Turn
from coilclaw.packets.card import Answer
from coilclaw.packets.errors import CoilclawError, UsageError
from coilclaw.packets.settings import SettingChange
from coilclaw.runtime.checkup import examine
from coilclaw.runtime.settings import proposal
from coilclaw.sandbox.box import open_box
from coilclaw.sandbox.fake_box import FakeBox, finished
from coilclaw.sandbox.missing_programs import Sight, lendable, missing_program
from coilclaw.sandbox.toolchains import lent
from tests.features.projects.world import add


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


async def test_without_lending_it_the_link_leads_outside_and_one_change_of_settings_would_do(sample, folder):
    home = home_with(sample)
    (home.workspace / ".venv/bin").mkdir(parents=True)
    (home.workspace / ".venv/bin/python").symlink_to(folder / "bin/python3")
    outcome = await home.call("shell", command=".venv/bin/python x")
    lend = SettingChange(key="security.toolchains", op="add", value=str(folder))
    assert (outcome.action.decision.verdict, outcome.action.decision.allows) == ("deny", (lend,))
    assert f"`coilclaw config set --add security.toolchains {folder}`" in outcome.result.output
    assert "allowed_commands" not in outcome.result.output
    told = next(fields for event, fields in home.events if event == "tool_denied")
    assert further_rows("tool_denied", told) == [
        f"  to allow it: coilclaw config set --add security.toolchains {folder}"
    ]
    read = await home.call("shell", key="other", command=f"cat {folder}/bin/frob")  # nothing that runs there
    assert read.action.decision.allows == ()
    tainted = Turn("turn_page", "", "cli", ("untrusted:web",))
    steered = await home.call("shell", key="tainted", turn=tainted, command=".venv/bin/python x")
    assert steered.action.decision.allows == ()


async def test_a_command_that_misses_a_program_is_told_where_it_is_and_what_lends_it(sample, folder):
    home = home_with(sample, security__allowed_commands=("frob", "tail"))
    home.app.open_box = lambda: open_box(hide=(str(home.home.root),))
    (home.workspace / ".venv/bin").mkdir(parents=True)
    (home.workspace / ".venv/bin/frob").write_text(f"#!{folder}/bin/python3\n")
    (home.workspace / ".venv/bin/frob").chmod(0o755)
    own = await home.call("shell", key="own", command="frob | tail -3")  # which ends well
    assert "[This folder has its own frob: .venv/bin/frob.]" in own.result.output
    outcome = await home.call("shell", key="needs", command=".venv/bin/frob")
    lend = f"coilclaw config set --add security.toolchains {folder}"
    assert f".venv/bin/frob needs {folder}/bin/python3, which boxes do not see." in outcome.result.output
    assert lend in outcome.result.output
    told = [fields for event, fields in home.events if event == "tool_failed"]
    assert told[-1]["remedy"] == lend
    assert further_rows("tool_failed", told[-1]) == [f"  to let it be found: {lend}"]
    change = SettingChange(key="security.toolchains", op="add", value=str(folder))
    assert [each.allows for each in calls_standing(home.app.db.reader, ["turn_1"])] == [(), (change,)]  # in the panel


async def test_what_a_host_made_a_command_say_proposes_nothing(sample, folder, monkeypatch):
    home = home_with(sample, security__autonomy="full", security__allowed_domains=("files.example.org",))
    monkeypatch.setenv("PATH", str(folder / "bin"))
    home.app.open_box = lambda: FakeBox(lambda _: finished(b"/bin/sh: 1: frob: not found\n"))
    for number, domains in enumerate(([], ["files.example.org"])):
        turn = Turn(f"turn_{number}", "", "cli")
        outcome = await home.call("shell", turn, key=f"k{number}", command="ls", domains=domains)
        assert outcome.result.success, outcome.result
        assert (str(folder) in outcome.result.output) is not bool(domains)
        assert ("lendable" in outcome.result.metadata) is not bool(domains)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("/bin/sh: 1: frob: not found", "frob"),
        ("/bin/sh: line 2: frob: command not found", "frob"),
        ("before\nenv: ‘frob’: No such file or directory\nafter", "frob"),
        ("make: frob: No such file or directory", "frob"),
    ],
)
def test_what_a_version_manager_has_is_found_behind_its_shims(folder, tmp_path, said, name):
    manager = folder / "manager"
    for version in ("3.9.1", "3.10.2"):
        (manager / "versions" / version / "bin").mkdir(parents=True)
        shutil.copy(folder / "bin/frob", manager / "versions" / version / "bin" / name)
    (manager / "shims").mkdir()
    shutil.copy(folder / "bin/frob", manager / "shims" / name)
    sight = Sight(folder=str(tmp_path), user_home="/home/somebody", search_path=str(manager / "shims"), lent=())
    assert missing_program(said, sight).folder == str(manager / "versions/3.10.2")
    (manager / "version").write_text("3.9.1\n")
    assert missing_program(said, sight).folder == str(manager / "versions/3.9.1")
    there = msgspec.structs.replace(sight, lent=(str(manager),))
    assert missing_program(said, there) is None
    assert missing_program("frob: not found", sight) is None  # said by no shell


def test_every_link_on_the_way_is_lent_and_nothing_as_wide_as_a_home(folder):
    (folder / "versions").mkdir()
    (folder / "bin").rename(folder / "made")
    (folder / "versions/3.12.1").mkdir()
    (folder / "made").rename(folder / "versions/3.12.1/bin")
    (folder / "versions/3.12").symlink_to("3.12.1")
    (folder / "python").symlink_to(folder / "versions/3.12/bin/python3")
    assert lendable(str(folder / "python"), "/home/somebody") == str(folder / "versions")
    assert lendable(str(folder / "versions/3.12.1/bin/frob"), "/home/somebody") == str(folder / "versions/3.12.1")
    (folder / "bin").mkdir()
    (folder / ".local/bin").mkdir(parents=True)
    for place in ("bin/tool", ".local/bin/tool"):
        (folder / place).write_text("#!/bin/sh\n")
        assert lendable(str(folder / place), str(folder)) == ""
    assert lendable("/usr/bin/env", str(folder)) == ""


def test_links_inside_a_hostile_folder_do_not_widen_what_is_offered(folder):
    program = folder / "work/tools/py/bin/python3"
    program.parent.mkdir(parents=True)
    shutil.copy(folder / "bin/python3", program)
    site = folder / "work/site"
    (site / ".venv/bin").mkdir(parents=True)
    (site / "way").symlink_to(program)
    (site / ".venv/bin/python").symlink_to(site / "way")
    sight = Sight(folder=str(site), user_home="/home/somebody", search_path="", lent=())
    missed = missing_program("/bin/sh: 1: .venv/bin/python: not found", sight)
    assert missed.folder == str(folder / "work/tools/py")  # not `work`, which both lie in
    other = msgspec.structs.replace(sight, apart=(str(folder / "work/tools"),))
    assert missing_program("/bin/sh: 1: .venv/bin/python: not found", other).folder == ""
    (folder / ".local/share/bin").mkdir(parents=True)
    (folder / ".local/share/bin/tool").write_text("#!/bin/sh\n")
    assert lendable(str(folder / ".local/share/bin/tool"), str(folder)) == ""  # keys lie beside it


async def test_what_the_agent_can_write_in_a_project_cannot_be_lent(sample, folder):
    home = home_with(sample)
    (folder / "site/kit/bin").mkdir(parents=True)
    add(home, folder / "site")

    def lend(path):
        return proposal(home.app, (SettingChange(key="security.toolchains", op="add", value=str(path)),))

    for path in (folder / "site/kit", folder / "site", folder):
        with pytest.raises(UsageError, match="the agent can write there"):
            lend(path)
    (folder / "kit").mkdir()
    (folder / "kit/own").symlink_to(folder / "site/kit")
    with pytest.raises(UsageError, match="the agent can write there"):
        lend(folder / "kit/own")
    call = lend(folder / "kit")
    add(home, folder / "kit", name="later")  # while the question waits
    late = await home.call("settings_change", Turn("turn_h", "", "gateway"), **msgspec.json.decode(call.args_bytes))
    assert (late.result.success, "later" in late.result.output) == (False, True)
    assert str(folder) not in home.home.config_file.read_text()


def test_a_folder_that_is_lent_cannot_become_a_project(sample, folder):
    (folder / "inner").mkdir()
    home = home_with(sample, folder)
    for path in (folder, folder / "inner"):
        with pytest.raises(UsageError, match="lent to boxes"):
            check_folder(home.app, str(path))


def test_doctor_names_a_project_whose_environment_boxes_cannot_run(sample, folder):
    home = home_with(sample)
    project = home.folder / "own" / "site"
    (project / ".venv/bin").mkdir(parents=True)
    (project / ".venv/pyvenv.cfg").write_text("home = elsewhere\n")
    (project / ".venv/bin/python").symlink_to(folder / "bin/python3")
    add(home, project)

    def toolchains():
        probes = examine(home.app, lambda: home.app.db.reader, short=True)
        return [each for each in probes if each.name == "toolchains"]

    (probe,) = toolchains()
    assert probe.state == "warn"
    assert "site: .venv/bin/python needs" in probe.detail
    assert f"coilclaw config set --add security.toolchains {folder}" in probe.remedy
    config = home.home.config_file
    config.write_text(config.read_text().replace("[security]", f'[security]\ntoolchains = ["{folder}"]', 1))
    home.app.live.refresh(at_once=True)
    assert [each.state for each in toolchains()] == ["ok"]


def test_doctor_takes_no_word_of_a_project_that_is_not_vouched_for(sample, folder):
    home = home_with(sample)
    for name in ("theirs", "ours"):
        (home.folder / "own" / name / ".venv/bin").mkdir(parents=True)
        (home.folder / "own" / name / ".venv/pyvenv.cfg").write_text("home = elsewhere\n")
        (home.folder / "own" / name / ".venv/bin/python").symlink_to(folder / "bin/python3")
        add(home, home.folder / "own" / name, vouched=name == "ours")
    probes = examine(home.app, lambda: home.app.db.reader, short=True)
    told = [each.detail.partition(":")[0] for each in probes if each.name == "toolchains"]
    assert told == ["project ours"]


@pytest.mark.parametrize("vouched", [True, False])
def test_adding_a_project_tells_what_to_lend_only_if_it_is_vouched_for(sample, folder, monkeypatch, capsys, vouched):
    home = home_with(sample)
    site = home.folder / "own" / "site"
    (site / ".venv/bin").mkdir(parents=True)
    (site / ".venv/pyvenv.cfg").write_text("home = elsewhere\n")
    (site / ".venv/bin/python").symlink_to(folder / "bin/python3")
    monkeypatch.setattr(commands, "opened", lambda: nullcontext(home.app))
    monkeypatch.setattr(commands, "_carry", lambda _app, _call: 0)
    assert commands.add.callback(str(site), "", vouched) == 0
    said = capsys.readouterr()
    assert (str(folder) in said.out + said.err) is vouched


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
