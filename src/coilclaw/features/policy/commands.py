"""coilclaw policy."""

import sys
from typing import TYPE_CHECKING, cast

import click
import msgspec

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, print_json, print_wrapped, tell
from coilclaw.packets.action import Identity, Label, Source
from coilclaw.packets.errors import UsageError
from coilclaw.packets.text import one_line

if TYPE_CHECKING:
    from coilclaw.packets.decision import Decision
    from coilclaw.runtime import Runtime


STRICTNESS = (0, 4, 3)
"""Exit codes from mild to strict: allow, ask, deny."""


class Sample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call to try: tool and arguments, and optionally where it would come from."""

    tool: str
    identity: Identity | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")
    source: Source = "chat"
    taint: tuple[Label, ...] = ()


@click.group()
def policy() -> None:
    """Show the rules in force, or try a call against them."""


@policy.command()
@json_option
def show(as_json: bool) -> None:
    """Show autonomy, boundaries, allowlists and policy files."""
    with opened() as app:
        rules = app.policy()
        shown = {
            "autonomy": rules.autonomy,
            "workspace": str(app.workspace),
            "workspace_only": rules.workspace_only,
            "forbidden_paths": [str(path) for path in app.config.security.forbidden_paths],
            "forbidden_commands": sorted(rules.forbidden_commands),
            "allowed_commands": sorted(rules.allowed_commands),
            "allowed_domains": list(app.config.security.allowed_domains),
            "tools_allow": sorted(app.allowed_tools),
            "rules": rules.rules,
            "broken": rules.broken or None,
            "estop": app.estop.engaged(),
            "policy_hash": rules.hash,
        }
    if as_json:
        print_json(shown)
        return
    for name, value in shown.items():
        if name == "rules":
            for rule in rules.rules:
                print_wrapped(one_line(f"rule {rule.id}: {rule.verdict} – {rule.reason}"), indent="  ")
        else:
            print_wrapped(one_line(f"{name.replace('_', ' ')}: {_words(value)}"), indent="  ")


def _words(value: object) -> str:
    """A value as people say it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, cast("list[object]", value))) or "none"
    return "no" if value is None else str(value)


@policy.command(short_help="Show the decision a call would get.")
@click.option("--json", "call", metavar="CALL", help='A call such as {"tool": "shell", "args": {"command": "ls"}}.')
@click.option("--stdin", "from_stdin", is_flag=True, help="Read one call per line; print one decision per line.")
@click.option("--project", "project_name", default="", help="In this project instead of the workspace.")
@click.option("--exit-code", is_flag=True, help="Exit 0 for allow, 4 for ask, 3 for deny.")
def check(call: str | None, from_stdin: bool, project_name: str, exit_code: bool) -> int:
    """Print the decision a call would get: in words at a terminal, else as JSON. Nothing is run, nothing is stored."""
    if (call is None) == (not from_stdin):
        raise UsageError("give one of --json CALL or --stdin.")
    from coilclaw.cli.project_choice import chosen_project

    worst = 0
    with opened() as app:
        project = chosen_project(app, project_name, here=False)
        project_id = "" if project is None else project.project_id
        if call is not None:
            decision = _decide(app, call, project_id)
            _show(decision)
            worst = _code(decision)
        else:
            for line in sys.stdin.buffer:
                if line.strip():
                    worst = max(worst, _check_line(app, line, project_id), key=STRICTNESS.index)
    return worst if exit_code else 0


def _check_line(app: "Runtime", line: bytes, project_id: str) -> int:
    try:
        decision = _decide(app, line, project_id)
    except UsageError as error:
        print_json({"error": str(error), "verdict": "deny", "code": "BAD_CALL"}, indent=0)
        return 3
    print_json(decision, indent=0)
    return _code(decision)


def _decide(app: "Runtime", text: str | bytes, project_id: str) -> "Decision":
    from coilclaw.features.policy.policy_check import decide_sample
    from coilclaw.packets.canonical import NotCanonical, parse_json, parse_object

    try:
        parse_json(text)
        sample = msgspec.json.decode(text, type=Sample)
        args = parse_object(bytes(sample.args))
    except (NotCanonical, msgspec.DecodeError) as error:
        raise UsageError(f"this is not a call: {error}") from error
    return decide_sample(
        app,
        sample.tool,
        args,
        identity=sample.identity,
        source=sample.source,
        taint=sample.taint,
        project_id=project_id,
    )


def _show(decision: "Decision") -> None:
    if not sys.stdout.isatty():
        print_json(decision)  # the whole packet: programs find here what they find in every decision
        return
    told = [
        ("verdict", decision.verdict),
        ("risk", f"{decision.risk_word} ({decision.risk}, {decision.risk_class}), lane {decision.lane}"),
        ("rule", f"{decision.rule} ({decision.code})"),
        *(("because", reason) for reason in decision.reasons),
        *(("instead", change) for change in decision.recommended_changes),
    ]
    for name, text in told:
        tell(f"{name:9}{one_line(text)}")


def _code(decision: "Decision") -> int:
    return {"allow": 0, "ask": 4, "deny": 3}[decision.verdict]
