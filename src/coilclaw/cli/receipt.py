"""coilclaw receipt."""

import click

from coilclaw.cli import candidates
from coilclaw.cli.output import counted, json_option, moment, print_json, print_line, print_rows, tell
from coilclaw.cli.session import opened
from coilclaw.packets.errors import UsageError
from coilclaw.packets.text import one_line


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
@click.argument("key", shell_complete=candidates.receipts)
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
    """Replay the log against the rows and the signed heads; name the first broken link. Exit 6 if there is one."""
    from coilclaw.ledger.live_verify import verify_live

    with opened() as app:
        report = verify_live(app.db.path, app.config.receipts.path, app.signing_key)
    if as_json:
        print_json(report)
        return 0 if report.valid else 6
    for note in report.notes:
        tell(f"note: {note}", err=True)
    if report.broken is None:
        print_line(
            f"The chain is intact: {counted(report.receipts, 'receipt')}, {counted(report.heads, 'signed head')}.",
            style="green",
        )
        return 0
    broken = report.broken
    print_line(f"invalid chain at receipt {broken.receipt}: {broken.kind}. {broken.detail}.", style="red")
    tell("What to do is in SECURITY.md, 'A broken ledger'.", err=True)
    return 6
