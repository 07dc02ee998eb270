"""coilclaw audit."""

import re
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, cast

import click
import msgspec

from coilclaw.cli import completion
from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, moment, print_json, print_rows, print_wrapped, tell
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import UsageError
from coilclaw.packets.text import one_line, visible

if TYPE_CHECKING:
    from coilclaw.ledger.audit import AuditEvent, Follower
    from coilclaw.ledger.story import Story
    from coilclaw.packets.action import Identity
    from coilclaw.runtime import Runtime

POLL_MILLISECONDS = 300


_HASHES = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
MOST = 300
"""Characters of a sentence about an action; --all has the rest."""


@click.group()
def audit() -> None:
    """List what happened, or tell the whole story of an action."""


@audit.command("list", short_help="List audit events in the order they happened.")
@click.option("--follow", "-f", is_flag=True, help="Follow new events until Ctrl-C.")
@click.option("--since", type=click.IntRange(0, 1 << 62), help="Start after the event with this number.")
@click.option("--type", "event_type", help="Only events of this type, such as tool_denied.")
@click.option("--entity", help="Only events of this action, job or turn.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1_000_000))
@click.option("--json", "as_json", is_flag=True, help="Print JSON; with --follow, one object per line.")
def list_events(
    follow: bool, since: int | None, event_type: str | None, entity: str | None, limit: int, as_json: bool
) -> None:
    """List audit events in the order they happened: the newest ones, or those that follow --since."""
    from coilclaw.ledger.audit import Follower, Wanted, events_after, last_events, last_number

    wanted = Wanted(event_type=event_type, entity_id=entity)
    with opened() as app:
        db = app.db.reader
        show = _printer(app, as_json=as_json, follow=follow)
        if follow:
            newest = last_number(db)
            if since is None:
                show([event for event in last_events(db, wanted, limit) if event.seq <= newest])
                since = newest
            _follow(Follower(db, wanted, since), show)
        elif since is None:
            show(last_events(db, wanted, limit))
        else:
            show(events_after(db, wanted, since, limit))


def _follow(follower: "Follower", show: "Callable[[Iterable[AuditEvent]], None]") -> None:
    """Show what comes until nobody reads any more."""
    import select

    reader_gone = select.poll()
    reader_gone.register(sys.stdout.fileno(), 0)  # asks for nothing: an error or a hang-up is told anyway
    while True:
        events = follower.next()
        if events:
            show(events)
        elif reader_gone.poll(POLL_MILLISECONDS):
            return


def _printer(app: "Runtime", *, as_json: bool, follow: bool) -> "Callable[[Iterable[AuditEvent]], None]":
    def show(events: "Iterable[AuditEvent]") -> None:
        if as_json and follow:
            for event in events:
                print_json(_redacted(app, event), indent=0)
        elif as_json:
            print_json(_redacted(app, list(events)))
        elif sys.stdout.isatty() and (follow or events):
            for event in events:
                number, when, kind, of, what = (one_line(cell) for cell in _cells(app, event))
                print_wrapped(f"{number}  {when}  {kind}  {of}", indent="  ")
                if what:
                    print_wrapped("  " + _HASHES.sub(r"\1…", what), indent="  ")
        elif follow:  # a line at a time: a table would have to know what is still to come
            for event in events:
                tell("\t".join(one_line(cell) for cell in _cells(app, event)))
        else:
            rows = [_cells(app, event) for event in events]
            print_rows(rows, ("number", "when", "event", "of", "what"), empty="There are no such events.")
        sys.stdout.flush()

    return show


def _cells(app: "Runtime", event: "AuditEvent") -> tuple[str, str, str, str, str]:
    what = event.payload
    if isinstance(what, dict):
        told = " ".join(f"{name}={_word(value)}" for name, value in what.items() if value not in (None, ""))
    else:
        told = _word(what)
    when = moment(event.created_at, "seconds")
    return str(event.seq), when, app.redact(event.event_type), app.redact(event.entity_id), app.redact(told)


def _word(value: Json) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _redacted(app: "Runtime", value: object) -> Json:
    """The value as plain JSON without secrets; should redaction break, nothing of it."""
    try:
        return app.redactor.value(msgspec.to_builtins(value))
    except Exception:  # fail closed: what cannot be redacted is not shown
        return {"withheld": "redaction failed"}


@audit.command(short_help="Explain an action from start to end, with its proof.")
@click.argument("action_id", shell_complete=completion.actions())
@click.option("--all", "everything", is_flag=True, help="Everything, at a terminal too.")
@json_option
def explain(action_id: str, everything: bool, as_json: bool) -> int:
    """Tell the whole story of an action: who asked, what was decided, who approved, what came of it, and its proof.

    `last` is the newest action. At a terminal in a few lines; --all, --json and a pipe give all of it.
    Exit 6 when the stored row and its receipts do not agree.
    """
    from coilclaw.ledger.story import story_of
    from coilclaw.store.actions import recent_ids

    with opened() as app:
        if action_id == "last":
            action_id = next(iter(recent_ids(app.db.reader, 1)), action_id)
        story = story_of(app.db.reader, action_id)
        if story is None:
            from coilclaw.packets.names import did_you_mean

            near = did_you_mean(action_id, recent_ids(app.db.reader, 200))
            raise UsageError(f"there is no action {action_id!r}.", remedy=near)
        if as_json:
            print_json(_redacted(app, story))
        elif everything or not sys.stdout.isatty():
            _tell(app, story)
        else:
            tell_in_short(app, story)
    return 0 if story.agrees else 6


def tell_in_short(app: "Runtime", story: "Story") -> None:
    """The story in a few sentences, wrapped where the terminal is narrow, so that nothing falls away."""
    from coilclaw.features.records.story_text import in_short
    from coilclaw.packets.action import ToolCall

    args = story.args if isinstance(story.args, dict) else {}
    call = ToolCall.of(story.tool, args, identity=cast("Identity | None", story.identity))
    for line in in_short(story, app.inspector.in_short(call)):
        told = one_line(app.redact(line.replace("\n", " ")))
        print_wrapped(told if len(told) <= MOST else f"{told[: MOST - 1]}…", indent="  ")


def _tell(app: "Runtime", story: "Story") -> None:
    from coilclaw.features.records.story_text import paragraphs

    for title, lines in paragraphs(story):
        tell(one_line(app.redact(title)))
        for name, text in lines:
            shown = visible(app.redact(text)).splitlines() or [""]
            tell(f"  {name:14}{shown[0]}".rstrip())
            for line in shown[1:]:
                tell(f"  {'':14}{line}")
        tell("")
