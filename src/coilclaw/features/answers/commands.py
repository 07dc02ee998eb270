"""coilclaw answers."""

import sys
from typing import TYPE_CHECKING

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import (
    counted,
    json_option,
    moment,
    print_json,
    print_line,
    print_rows,
    print_wrapped,
    tell,
)
from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coilclaw.features.answers.views import AnswerView


@click.group()
def answers() -> None:
    """See what you said yes to from now on, and take it back.

    A standing answer is made only where you answer a card: `a` at the prompt, or in the panel.
    """


@answers.command("list", short_help="List standing answers and their uses.")
@click.option("--ended", is_flag=True, help="Also those that were revoked or expired.")
@json_option
def list_all(ended: bool, as_json: bool) -> None:
    """List standing answers, the newest first, with how often each was used."""
    from coilclaw.features.answers.views import folder_of, view_of
    from coilclaw.packets.ids import stamp
    from coilclaw.store.standing_answers import list_answers

    with opened() as app:
        now = stamp(app.clock())
        found = [view_of(each, now, app.redact) for each in list_answers(app.db.reader, app.clock, ended=ended)]
    if as_json:
        print_json(found)
        return
    if sys.stdout.isatty():
        show_answers(found)
        return
    rows = [
        (
            each.answer_id,
            each.scope,
            folder_of(each),
            _until(each),
            str(each.uses),
            moment(each.last_used_at or "never"),
        )
        for each in found
    ]
    print_rows(rows, ("answer", "yes to", "in", "until", "uses", "last used"), empty="There are no standing answers.")


@answers.command(short_help="Revoke one standing answer, or all.")
@click.argument("answer_id", required=False)
@click.option("--all", "every", is_flag=True, help="Revoke every standing answer.")
def revoke(answer_id: str | None, every: bool) -> int:
    """Revoke one standing answer, or all: from now on such calls ask again."""
    from coilclaw.ledger.standing import revoke_answer
    from coilclaw.store.standing_answers import list_answers

    if every == (answer_id is not None):
        raise UsageError("say which standing answer, or --all.", remedy="See `coilclaw answers list`.")
    with opened() as app:
        holding = [each.answer_id for each in list_answers(app.db.reader, app.clock, ended=False)]
        named = holding if answer_id is None else [answer_id]
        if answer_id is not None and answer_id not in holding:
            raise UsageError(f"no standing answer {answer_id!r} holds.", remedy="See `coilclaw answers list`.")
        revoked = app.db.write_now(
            lambda tx: [each for each in named if revoke_answer(tx, app.clock, each, "terminal")]
        )
    tell(f"Revoked {', '.join(revoked)}." if revoked else "There was nothing to revoke.")
    return 0


def show_answers(found: "Sequence[AnswerView]") -> None:
    """Each in a sentence of its own: in a table the words of a command would be broken apart."""
    from coilclaw.features.answers.views import folder_of

    for each in found:
        used = counted(each.uses, "time")
        print_wrapped(f"· {each.scope}", indent="  ")
        print_wrapped(f"  in {folder_of(each)}, {_holds(each)}, used {used}: {each.answer_id}", indent="  ")
    if not found:
        print_line("There are no standing answers.")


def _holds(answer: "AnswerView") -> str:
    if answer.holds and answer.thread_id is None:
        return f"until {'you revoke it' if answer.expires_at is None else _until(answer)}"
    return _until(answer)


def _until(answer: "AnswerView") -> str:
    if not answer.holds:
        return "revoked" if answer.revoked_at else "expired"
    if answer.expires_at is not None:
        return moment(answer.expires_at)
    return f"conversation {answer.thread_id}" if answer.thread_id else "revoked by you"
