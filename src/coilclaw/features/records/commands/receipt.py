"""coilclaw receipt."""

import click

from coilclaw.cli import completion
from coilclaw.cli.open_home import opened
from coilclaw.cli.output import counted, json_option, moment, print_json, print_line, print_rows, tell
from coilclaw.packets.errors import UsageError
from coilclaw.packets.text import one_line

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
    rows = [(r.id, moment(r.timestamp, "seconds"), r.tool, r.status, r.risk, r.code) for r in receipts]
    print_rows(rows, ("receipt", "when", "tool", "status", "risk", "code"), empty="There are no receipts yet.")


@receipt.command()
@click.argument("key", shell_complete=completion.receipts)
@json_option
def show(key: str, as_json: bool) -> None:
    """Show the receipts with this id, number, id prefix or action id."""
    from coilclaw.ledger.chain import find_receipts, list_receipts
    from coilclaw.packets.names import did_you_mean

    with opened() as app:
        found = find_receipts(app.db.reader, key)
        if not found:
            recent = [each.id for each in list_receipts(app.db.reader, 200)]
            raise UsageError(f"there is no receipt {key!r}.", remedy=did_you_mean(key, recent))
    if as_json:
        print_json(found)
        return
    import msgspec

    for each in found:
        for name, value in msgspec.structs.asdict(each).items():
            tell(f"{name:16}{one_line(str(value))}")
        tell("")


@receipt.command(short_help="Check the whole chain; name the first broken link.")
@json_option
def verify(as_json: bool) -> int:
    """Compare the log, rows, signed heads, audit events and actions with each other and report every mismatch.

    Exits with 6 if there is one. Nothing is written: it works on read-only media, on a copy, and next to a busy worker.
    """
    from coilclaw.ledger.live_verify import verify_live

    with opened() as app:
        report = verify_live(app.config.memory.path, app.config.receipts.path, app.signing_key)
    if as_json:
        print_json(report)
        return 0 if report.valid else 6
    for note in report.notes:
        tell(f"note: {note}", err=True)
    if report.broken is None:
        print_line(
            f"The chain is intact: {counted(report.receipts, 'receipt')}, {counted(report.heads, 'signed head')};"
            f" {counted(report.events, 'audit event')}, {counted(report.actions, 'action')}.",
            style="green",
        )
        return 0
    first, *others = report.findings
    where = f"invalid chain at receipt {first.receipt}" if first.receipt else "invalid"
    print_line(f"{where}: {first.kind}. {first.detail}.", style="red")
    for each in others[:_SHOWN]:
        print_line(f"also {each.kind}: {one_line(each.detail)}.", style="red")
    hidden = len(others) - len(others[:_SHOWN]) + report.more
    if hidden:
        tell(f"… and {hidden} more; `--json` lists up to a hundred.", err=True)
    tell("See SECURITY.md, 'A broken ledger', for what to do.", err=True)
    return 6
