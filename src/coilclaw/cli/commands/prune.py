"""coilclaw prune."""

from typing import TYPE_CHECKING

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import counted, json_option, print_json, tell

if TYPE_CHECKING:
    from coilclaw.ledger.prune import Pruned, Pruner
    from coilclaw.runtime import Runtime


@click.command()
@click.option("--dry-run", is_flag=True, help="Only print what would be deleted.")
@json_option
def prune(dry_run: bool, as_json: bool) -> None:
    """Delete what was kept long enough ([retention] says how long).

    Audit events go once they are on main, where the daily export's pull request puts them; with forge.enabled = false,
    or where pull requests cannot be used, they are first exported to audit/ in the workspace.
    Receipts are never deleted, nor what an open action, a running job or a message that stays still needs.
    """
    with opened() as app:
        done = pruner(app).dry_run() if dry_run else pruner(app).prune()
    if as_json:
        print_json(done)
    else:
        _print(done)


def pruner(app: "Runtime") -> "Pruner":
    """The pruner of a home."""
    from coilclaw.ledger.prune import Pruner
    from coilclaw.store.retention import Days

    kept = app.config.retention
    return Pruner(
        app.db,
        app.workspace,
        app.home.locks_dir,
        Days(
            audit=kept.audit_days,
            messages=kept.messages_days,
            artifacts=kept.artifacts_days,
            idempotency=kept.idempotency_days,
        ),
        clock=app.clock,
        redact=app.redactor.value,
        exported=lambda before: app.extensions.audit_on_main(app, before),
    )


def _print(done: "Pruned") -> None:
    gone = done.gone
    parts = (
        (gone.audit, "audit event"),
        (gone.messages, "message"),
        (gone.threads, "conversation"),
        (gone.artifacts, "artifact"),
        (gone.idempotency, "idempotency key"),
        (gone.step_outputs, "step output"),
        (gone.schedule_runs, "schedule run"),
        (gone.auth_tokens, "expired token"),
        (gone.requests, "kept answer"),
        (gone.challenges, "passkey challenge"),
        (gone.pairing_codes, "pairing code"),
    )
    said = ", ".join(counted(number, noun) for number, noun in parts if number)
    tell(f"{'Would delete' if done.dry_run else 'Deleted'} {said or 'nothing'}.")
    for name in done.files:
        tell(f"{'Would export' if done.dry_run else 'Exported'} audit events to {name}.")
    if done.waiting:
        kept = counted(done.waiting, "old audit event")
        tell(f"Kept {kept} that the daily export has not put on main yet; merge its pull request (`coilclaw pr list`).")
