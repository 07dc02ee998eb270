"""coilclaw receipt."""

import sys
from typing import TYPE_CHECKING

import click

from coilclaw.cli import completion
from coilclaw.cli.open_home import opened
from coilclaw.cli.output import counted, json_option, moment, print_json, print_line, print_rows, print_wrapped, tell
from coilclaw.cli.phrases import receipt_word
from coilclaw.packets.errors import UsageError
from coilclaw.packets.text import one_line

if TYPE_CHECKING:
    from coilclaw.features.records.anchored_heads import AnchorReport
    from coilclaw.ledger.findings import Report
    from coilclaw.packets.receipt import Receipt
    from coilclaw.runtime import Runtime

_SHOWN = 20


@click.group()
def receipt() -> None:
    """List, show or verify receipts."""


@receipt.command("list")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1_000_000))
@json_option
def list_all(limit: int, as_json: bool) -> None:
    """List receipts, the newest first."""
    from coilclaw.ledger.chain import list_receipts

    with opened() as app:
        receipts = list_receipts(app.db.reader, limit)
    if as_json:
        print_json(receipts)
        return
    rows = [(r.id, moment(r.timestamp), r.tool, r.status, r.risk, r.code) for r in receipts]
    print_rows(rows, ("receipt", "when", "tool", "status", "risk", "code"), empty="There are no receipts yet.")


@receipt.command(short_help="Show receipts by id, number, id prefix or action id.")
@click.argument("key", shell_complete=completion.receipts)
@click.option("--all", "everything", is_flag=True, help="Every field, at a terminal too.")
@json_option
def show(key: str, everything: bool, as_json: bool) -> None:
    """Show the receipts with this id, number, id prefix or action id; `last` is the newest."""
    from coilclaw.ledger.chain import find_receipts, list_receipts
    from coilclaw.packets.names import did_you_mean

    with opened() as app:
        found = list_receipts(app.db.reader, 1) if key == "last" else find_receipts(app.db.reader, key)
        if not found:
            recent = [each.id for each in list_receipts(app.db.reader, 200)]
            raise UsageError(f"there is no receipt {key!r}.", remedy=did_you_mean(key, recent))
        if sys.stdout.isatty() and not everything and not as_json:
            for each in found:
                _tell_story(app, each)
            return
    if as_json:
        print_json(found)
        return
    import msgspec

    for each in found:
        for name, value in msgspec.structs.asdict(each).items():
            tell(f"{name:16}{one_line(str(value))}")
        tell("")


def _tell_story(app: "Runtime", receipt: "Receipt") -> None:
    """A receipt in words: what was done, and how it came to that."""
    from coilclaw.features.records.commands.audit import tell_in_short
    from coilclaw.ledger.story import story_of

    said = receipt_word(receipt.status, receipt.code)
    print_wrapped(f"{receipt.id}: {one_line(receipt.tool)} {said}, {moment(receipt.timestamp)}", indent="  ")
    if receipt.identity:
        tell(f"In the name of {one_line(receipt.identity)}.")
    if receipt.cause:
        tell(f"Because of action {receipt.cause}.")
    story = story_of(app.db.reader, receipt.action_id) if receipt.action_id else None
    if story is not None:
        tell_in_short(app, story)
    else:
        who = f"action {receipt.action_id}" if receipt.action_id else "the runtime itself"
        print_wrapped(f"{receipt.risk} risk, {one_line(receipt.code)}, by {one_line(who)}. --all shows every field.")


@receipt.command(short_help="Check the whole chain; name the first broken link.")
@click.option(
    "--git",
    "repository",
    is_flag=False,
    flag_value="",
    metavar="[REPO]",
    help="Also compare the chain with the signed heads in a git repository; without REPO, in the workspace.",
)
@json_option
def verify(repository: str | None, as_json: bool) -> int:
    """Compare the log, rows, signed heads, audit events and actions with each other and report every mismatch.

    Exits with 6 if there is one. Nothing is written: it works on read-only media, on a copy, and next to a busy worker.
    With --git the branch `ledger` of a clone, which may be on another machine's disk, says what the chain once was.
    """
    from coilclaw.ledger.live_verify import verify_live

    with opened() as app:
        report = verify_live(app.config.memory.path, app.config.receipts.path, app.signing_key)
        anchors = None if repository is None else _compare(app, repository)
    if as_json:
        print_json(report if anchors is None else {"chain": report, "git": anchors})
    else:
        _print_chain(report)
        if anchors is not None:
            _print_anchors(anchors)
        if not report.valid or (anchors is not None and not anchors.valid):
            tell("See SECURITY.md, 'A broken ledger', for what to do.", err=True)
    return 0 if report.valid and (anchors is None or anchors.valid) else 6


def _compare(app: "Runtime", repository: str) -> "AnchorReport":
    from pathlib import Path

    from coilclaw.features.records.anchored_heads import verify_anchors

    return verify_anchors(app, Path(repository).expanduser() if repository else None)


def _print_chain(report: "Report") -> None:
    for note in report.notes:
        tell(f"note: {note}", err=True)
    if report.broken is None:
        print_line(
            f"The chain is intact: {counted(report.receipts, 'receipt')}, {counted(report.heads, 'signed head')};"
            f" {counted(report.events, 'audit event')}, {counted(report.actions, 'action')}.",
            style="green",
        )
        return
    first, *others = report.findings
    where = f"invalid chain at receipt {first.receipt}" if first.receipt else "invalid"
    print_line(f"{where}: {first.kind}. {first.detail}.", style="red")
    for each in others[:_SHOWN]:
        print_line(f"also {each.kind}: {one_line(each.detail)}.", style="red")
    hidden = len(others) - len(others[:_SHOWN]) + report.more
    if hidden:
        tell(f"… and {hidden} more; `--json` lists up to a hundred.", err=True)


def _print_anchors(report: "AnchorReport") -> None:
    for note in report.notes:
        tell(f"note: {report.repository}: {note}", err=True)
    if report.valid:
        covered = f", up to receipt {report.size}" if report.heads else ""
        print_line(f"The chain agrees with {counted(report.heads, 'anchored head')}{covered}.", style="green")
    for each in report.findings[:_SHOWN]:
        print_line(f"git: {each.kind}. {one_line(each.detail)}.", style="red")
    if len(report.findings) > _SHOWN:
        tell(f"… and {len(report.findings) - _SHOWN} more; `--json` lists up to a hundred.", err=True)
