"""Programs of the folder that is worked in: asked about, never run unasked for being there, never denied for it."""

import shutil

import pytest

from coilclaw.gate.turn import Turn
from coilclaw.lib.shell.command import read_command
from coilclaw.packets.card import Answer

PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin")
OWN = [
    "./gradlew test", "bash run.sh", "sh ./run.sh a b", "/bin/bash run.sh", ". .venv/bin/activate && pytest -q",
    "source .venv/bin/activate && python -m pytest", "bash -c 'ls && ./gradlew'", "cd sub && ./tool",
    ".venv/bin/tool --flag", "timeout 5 ./gradlew", "cd sub && ../.venv/bin/tool",
    "cd sub && ../gradlew test && cat ../run.sh", "cd sub && ls .. && ./tool",
]  # fmt: skip
STRANGE = [
    "frobnicate", "gradlew", "./gradlew && frobnicate", "./frobnicate; frobnicate", "bash -c frobnicate",
    "PAGER=./x frobnicate", "/opt/x/gradlew; ./gradlew", "./perl", ".venv/bin/link",
]  # fmt: skip


@pytest.fixture
def at(sample):
    """A home of an autonomy, whose workspace has programs of its own."""

    def made(autonomy):
        home = sample(security__autonomy=autonomy)
        home.owner.answer = Answer(approved=None)
        (home.workspace / ".venv/bin").mkdir(parents=True)
        (home.workspace / "sub").mkdir()
        for name in ("gradlew", "run.sh", "sub/tool", ".venv/bin/tool", ".venv/bin/activate"):
            (home.workspace / name).write_text("#!/bin/sh\n")
        (home.workspace / ".venv/bin/python").symlink_to("python3")
        (home.workspace / ".venv/bin/python3").symlink_to(PYTHON or "/usr/bin/python3")
        (home.workspace / "perl").symlink_to("/usr/bin/perl")
        (home.workspace / ".venv/bin/link").symlink_to("/usr/bin/perl")
        (home.workspace / ".venv/bin/away").symlink_to("/etc/passwd")
        return home

    return made


async def decided(home, command):
    decision = (await home.call("shell", command=command)).action.decision
    return decision.verdict, decision.risk


@pytest.mark.parametrize("autonomy", ["supervised", "full"])
@pytest.mark.parametrize("command", OWN)
async def test_a_program_of_the_folder_asks(at, autonomy, command):
    assert await decided(at(autonomy), command) == ("ask", "R2")


@pytest.mark.parametrize("command", OWN)
async def test_readonly_denies_it(at, command):
    assert (await decided(at("readonly"), command))[0] == "deny"


@pytest.mark.parametrize("command", STRANGE)
async def test_any_other_program_that_is_not_listed_stays_high_risk(at, command):
    assert await decided(at("supervised"), command) == ("deny", "R3")
    assert (await decided(at("full"), command))[0] != "allow"


async def test_a_link_of_an_environment_to_the_systems_python_is_that_python(at):
    assert await decided(at("supervised"), ".venv/bin/python -m pytest") == ("ask", "R2")


@pytest.mark.parametrize("command", ["cd sub; ../gradlew", "cd sub && ../../gradlew", "cd sub && cat ../../x"])
async def test_what_may_lie_above_the_folder_is_denied(at, command):
    assert (await decided(at("supervised"), command))[0] == "deny"


@pytest.mark.parametrize("command", [".venv/bin/away", "cat .venv/bin/away", "cp a .venv/bin/python"])
async def test_a_link_that_leads_elsewhere_or_is_written_through_is_denied(at, command):
    assert (await decided(at("full"), command))[0] == "deny"


async def test_the_question_names_the_program_and_can_be_answered_from_now_on(at):
    home = at("full")
    outcome = await home.call("shell", command="bash run.sh")
    assert outcome.action.decision.reasons == (
        "A command that runs a program of this folder (bash) needs approval when autonomy is full.",
    )
    card = home.owner.cards[-1]
    assert [offer.what for offer in card.offers] == ["command"]
    assert "while run.sh stays as it is" in card.offers[0].text


def test_one_use_without_a_path_is_enough_to_be_no_program_of_the_folder():
    assert read_command("./tool").own == ("tool",)
    assert read_command("./tool; tool").own == ()
    assert read_command("bash x.sh; . y; ./z").own == ("bash", ".", "z")


@pytest.mark.parametrize(("label", "closed"), [("untrusted:gmail:partner.example", True), ("untrusted:web", False)])
async def test_a_command_cannot_write_memory_once_mail_was_read(sample, label, closed):
    home = sample(security__autonomy="full")
    turn = Turn("turn_1", "", "cli", inherited=(label,))
    await home.call("shell", turn, command="python3 -c 'print(1)'")
    assert (f"{home.workspace}/memory" in home.box.specs[-1].read_only) == closed
