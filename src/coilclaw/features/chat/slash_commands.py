"""What a conversation at the terminal can be asked about itself: what waits, its plan, its cost, earlier ones."""

import sys
from typing import TYPE_CHECKING

import msgspec

from coilclaw.cli.output import colours, counted, moment, print_line, print_rows, print_wrapped
from coilclaw.packets.errors import UsageError
from coilclaw.packets.text import visible

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Approver, Conveyor
    from coilclaw.runtime import Runtime

RESUMABLE = 15
"""Conversations in the list of `/resume`."""
LAST_MESSAGES, LAST_WORDS = 100, 600
"""Messages among which the last words of both are looked for, and characters shown of them."""
LOOKED_AT = 500
"""Actions among which the last plan of a conversation is looked for."""


def resumed(app: "Runtime", number: str) -> str | None:
    """The conversation of that number in the list; without a number the list is shown."""
    from coilclaw.store.threads import list_threads

    threads = [each for each in list_threads(app.db.reader, RESUMABLE) if each.messages]
    if not number:
        rows = [
            (
                str(at),
                app.redact(each.title) or each.thread_id,
                counted(each.messages, "message"),
                moment(each.updated_at),
            )
            for at, each in enumerate(threads, 1)
        ]
        print_rows(rows, ("", "conversation", "length", "last"), empty="There are no conversations yet.")
        if rows:
            print_line("/resume NUMBER continues one of them.")
        return None
    if not (number.isascii() and number.isdigit() and 1 <= int(number) <= len(threads)):
        raise UsageError(f"there is no conversation {number!r} in the list.", remedy="/resume shows it.")
    return threads[int(number) - 1].thread_id


def show_last(app: "Runtime", thread_id: str) -> None:
    """The last words of both, so that the owner knows where a conversation stands."""
    from coilclaw.store.threads import recent_messages

    for role in ("user", "assistant"):
        for row in reversed(recent_messages(app.db.reader, thread_id, LAST_MESSAGES)):
            if row.role == role and row.content.strip() and "job_id" not in row.metadata:
                words = visible(app.redact(row.content)).strip()
                words = words if len(words) <= LAST_WORDS else f"{words[:LAST_WORDS].rstrip()} …"
                show_words(words, of_owner=role == "user")
                break


def show_words(words: str, *, of_owner: bool) -> None:
    """What somebody said: an answer as it was shown when it was given."""
    if of_owner or not colours(sys.stdout):
        print_wrapped(f"› {words}" if of_owner else words, style="cyan" if of_owner else "")
        return
    from coilclaw.cli.live import Live

    live = Live(sys.stdout, str)
    live.answer(words)
    live.stop()


def show_about(name: str, app: "Runtime", conveyor: "Conveyor", thread_id: str) -> bool:
    """Answer one of the questions about a conversation; False when it is none of them."""
    match name:
        case "/approvals":
            _show_waiting(app, conveyor)
        case "/plan":
            _show_plan(app, thread_id)
        case "/cost":
            _show_cost(app, thread_id)
        case "/answers":
            _show_answers(app, thread_id)
        case _:
            return False
    return True


def _show_waiting(app: "Runtime", conveyor: "Conveyor") -> None:
    """What waits for the owner, in sentences."""
    from coilclaw.store.actions import waiting_actions

    rows = [
        (conveyor.intake.in_short(each.call), each.decision.risk_word, moment(each.expires_at), each.action_id)
        for each in waiting_actions(app.db.reader, 100)
    ]
    print_rows(rows, ("what", "risk", "expires", "action"), empty="Nothing is waiting for you.")
    if rows:
        print_line("`coilclaw approvals approve ACTION` shows one and asks.")


def _show_plan(app: "Runtime", thread_id: str) -> None:
    """The last plan that the agent told in this conversation."""
    from coilclaw.store.actions import list_actions
    from coilclaw.tools.plan import PlanArgs, plan_lines

    for action in list_actions(app.db.reader, "EXECUTED", LOOKED_AT):
        if action.thread_id == thread_id and action.call.tool == "plan_update":
            for line in plan_lines(msgspec.json.decode(action.call.args_bytes, type=PlanArgs).steps):
                print_line(app.redact(line))
            return
    print_line("There is no plan in this conversation.")


def _show_cost(app: "Runtime", thread_id: str) -> None:
    """What this conversation has used."""
    from coilclaw.features.chat.turn_view import spent_words

    print_line(spent_words(app, "", thread_id) or "No tokens were used in this conversation yet.")


def _show_answers(app: "Runtime", thread_id: str) -> None:
    """What the owner said yes to from now on, as far as it holds in this conversation."""
    from coilclaw.features.answers.commands import show_answers
    from coilclaw.features.answers.views import view_of
    from coilclaw.packets.ids import stamp
    from coilclaw.store.standing_answers import list_answers

    now = stamp(app.clock())
    found = [view_of(each, now, app.redact) for each in list_answers(app.db.reader, app.clock, ended=False)]
    show_answers([each for each in found if each.thread_id in (None, thread_id)])
    if found:
        print_line("`coilclaw answers revoke ANSWER` ends one, `coilclaw answers list` shows all.")


async def undo_last(app: "Runtime", project_id: str, approve: "Approver") -> None:
    """Take back what was written last, asked about like any other call."""
    from coilclaw.cli.commands.tool import run_tool
    from coilclaw.cli.phrases import result_words
    from coilclaw.packets.action import ToolCall

    root = app.project_root(project_id)
    named = root.snapshots.named("")
    wanted = root.undoing.wanted(named.id)
    if not wanted.paths and not root.snapshots.changes(named.id, root.places.may_restore):
        print_line("There is nothing to take back: nothing the agent wrote is still there.")
        return
    call = ToolCall.of("undo", wanted.args())
    outcome = await run_tool(app, call, yes=False, approve=approve, project_id=project_id)
    print_line(app.redact(result_words(outcome.result)))
