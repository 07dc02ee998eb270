"""coilclaw skill."""

import asyncio
from typing import TYPE_CHECKING

import click
import msgspec

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, moment, print_json, print_line, print_result, print_rows, tell
from coilclaw.packets.errors import UsageError
from coilclaw.packets.text import one_line, visible

if TYPE_CHECKING:
    from coilclaw.features.skills.skill_files import SkillFile
    from coilclaw.features.skills.views import SkillDetails


@click.group()
def skill() -> None:
    """See, check and write skills: skills/NAME/SKILL.md in the workspace says how you want something done."""


@skill.command("list")
@json_option
def list_skills(as_json: bool) -> None:
    """List the skills in the workspace."""
    from coilclaw.features.skills.views import SkillShelf

    with opened() as app:
        shelf = SkillShelf(app)
        files = shelf.every()
        told = [shelf.details(app.redact, file) for file in files]
    if as_json:
        print_json([msgspec.to_builtins(each) for each in told])
        return
    rows = [(each.name, _state(file), each.description) for file, each in zip(files, told, strict=True)]
    empty = "There are no skills; `coilclaw skill new NAME` writes one."
    print_rows(rows, ("skill", "state", "what it is for"), empty=empty)


def _state(file: "SkillFile") -> str:
    return file.passed_over or "ready"


@skill.command()
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show a skill: what it narrows, where it was used, and its text."""
    from coilclaw.features.skills.skill import FILE, FOLDER, SKILL_BYTES
    from coilclaw.features.skills.skill_files import SkillFiles
    from coilclaw.features.skills.views import SkillShelf
    from coilclaw.sandbox.files import read_existing

    with opened() as app:
        shelf, file = SkillShelf(app), SkillFiles(app).one(name)
        told, uses = shelf.details(app.redact, file), shelf.uses(app.redact, name)
        data = read_existing(app.workspace, f"{FOLDER}/{name}/{FILE}", SKILL_BYTES) or b""
        text = visible(app.redact(data.decode("utf-8", "replace")))
    if as_json:
        print_json({**msgspec.to_builtins(told), "uses": msgspec.to_builtins(uses), "content": text})
        return
    for label, value in _told(told):
        print_line(f"{label + ':':<11} {value}")
    for use in uses[:5]:
        print_line(f"used:       {moment(use.at)}, {use.job_id or use.turn_id}, {use.why}")
    print_line("")
    print_line(text.rstrip("\n"))


def _told(skill: "SkillDetails") -> list[tuple[str, str]]:
    """What there is to say about a skill, without its text."""
    everything = "everything the configuration grants"
    lines = [
        ("name", skill.name),
        ("for", skill.description),
        ("intent", skill.intent),
        ("triggers", "; ".join(skill.triggers)),
        ("tools", everything if skill.tools is None else ", ".join(skill.tools) or "none"),
        ("domains", everything if skill.domains is None else ", ".join(skill.domains) or "none"),
        ("evidence", ", ".join(skill.evidence)),
        ("inputs", ", ".join(skill.inputs)),
        ("untrusted", ", ".join(skill.labels)),
        *(("fault", fault) for fault in skill.faults),
        *(("note", note) for note in skill.ungranted),
        ("sha256", skill.sha256),
    ]
    return [(label, value) for label, value in lines if value]


@skill.command(short_help="Check skills and list every fault.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@json_option
def validate(names: tuple[str, ...], as_json: bool) -> int:
    """Check skills, all of them or those named. What a skill names but nobody granted is said; it stays denied.

    Exit code: 0 all hold, 2 some do not.
    """
    from coilclaw.features.skills.skill_files import SkillFiles
    from coilclaw.features.skills.views import SkillShelf

    with opened() as app:
        shelf, files = SkillShelf(app), SkillFiles(app)
        found = [files.one(name) for name in names] if names else files.every()
        told = [shelf.details(app.redact, file) for file in found]
    if as_json:
        print_json([msgspec.to_builtins(each) for each in told])
    for each in told if not as_json else ():
        for fault in each.faults:
            tell(f"{each.name}: {fault}", err=True)
        if not each.faults:
            print_line(f"{each.name}: valid.")
        for note in each.ungranted:
            tell(f"{each.name}: note: {note}", err=True)
        if each.labels:
            vouch = f"`coilclaw labels forget skills/{each.name}/SKILL.md`"
            tell(
                f"{each.name}: not used: it holds content of {', '.join(each.labels)}. Read it, then {vouch}.", err=True
            )
    if not told and not as_json:
        print_line("There are no skills.")
    return 2 if any(each.faults for each in told) else 0


@skill.command()
@click.argument("words")
@click.option("--intent", default="", help="The intent of a job, if it is one.")
@json_option
def match(words: str, intent: str, as_json: bool) -> None:
    """Say which skill a message would be worked on with, and why. Nothing is run."""
    from coilclaw.features.skills.matching import match as matching
    from coilclaw.features.skills.skill_files import SkillFiles

    with opened() as app:
        files = SkillFiles(app).every()
        found = matching(filter(None, (file.usable for file in files)), words, intent)
    passed = {one_line(file.name): file.passed_over for file in files if file.passed_over}
    if as_json:
        print_json({"match": None if found is None else msgspec.to_builtins(found), "passed_over": passed})
        return
    if found is None:
        print_line("No skill matches; the model may choose one by its description.")
    else:
        print_line(f"{found.skill} ({found.why})")
    for name, why in passed.items():
        tell(f"{name} is not used: {why}.", err=True)


@skill.command()
@click.argument("name")
def new(name: str) -> int:
    """Write a new skill that is valid as it is, for you to edit."""
    from coilclaw.cli.commands.tool import exit_code, run_tool
    from coilclaw.cli.phrases import result_words
    from coilclaw.features.skills.example import example
    from coilclaw.features.skills.skill import FILE, FOLDER, read_skill
    from coilclaw.features.skills.skill_files import SkillFiles
    from coilclaw.packets.action import ToolCall

    content = example(name)
    faults = read_skill(content.encode(), name).faults
    if faults:
        raise UsageError(
            f"{one_line(name)!r} is not a valid name.", remedy="Use lower-case letters, digits and hyphens."
        )
    with opened() as app:
        if name in SkillFiles(app).names():
            raise UsageError(f"there is a skill {name} already.", remedy=f"Edit {FOLDER}/{name}/{FILE}.")
        call = ToolCall.of("file_write", {"path": f"{FOLDER}/{name}/{FILE}", "content": content})
        outcome = asyncio.run(run_tool(app, call, yes=True))
        print_result(result_words(outcome.result), success=outcome.result.success)
        return exit_code(outcome)
