"""What a conversation at the terminal can be asked about itself: what waits, its plan, its cost, earlier ones."""

from typing import TYPE_CHECKING

import msgspec

from coilclaw.cli.output import counted, moment, print_line, print_rows
from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Approver, Conveyor
    from coilclaw.runtime import Runtime

RESUMABLE = 15
"""Conversations in the list of `/resume`."""
LOOKED_AT = 500
"""Actions among which the last plan of a conversation is looked for."""
_SIGNS = {"todo": "☐", "doing": "▶", "done": "✓", "dropped": "✗"}


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
            _show_answers(app)
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
    from coilclaw.tools.plan import PlanArgs

    for action in list_actions(app.db.reader, "EXECUTED", LOOKED_AT):
        if action.thread_id == thread_id and action.call.tool == "plan_update":
            for step in msgspec.json.decode(action.call.args_bytes, type=PlanArgs).steps:
                print_line(f"{_SIGNS[step.state]} {app.redact(step.title)}")
            return
    print_line("There is no plan in this conversation.")


def _show_cost(app: "Runtime", thread_id: str) -> None:
    """What this conversation has used."""
    from coilclaw.features.chat.turn_view import spent_words

    print_line(spent_words(app, "", thread_id) or "No tokens were used in this conversation yet.")


def _show_answers(app: "Runtime") -> None:
    """What the owner said yes to from now on."""
    from coilclaw.features.answers.views import view_of
    from coilclaw.packets.ids import stamp
    from coilclaw.store.standing_answers import list_answers

    now = stamp(app.clock())
    found = [view_of(each, now, app.redact) for each in list_answers(app.db.reader, app.clock, ended=False)]
    rows = [(each.scope, counted(each.uses, "use"), each.answer_id) for each in found]
    print_rows(rows, ("yes to", "used", "answer"), empty="There are no standing answers.")


async def undo_last(app: "Runtime", project_id: str, approve: "Approver") -> None:
    """Take back what was written last, asked about like any other call."""
    from coilclaw.cli.commands.tool import run_tool
    from coilclaw.cli.phrases import result_words
    from coilclaw.packets.action import ToolCall

    named = app.project_root(project_id).snapshots.named("")
    call = ToolCall.of("undo", {"snapshot": named.id})
    outcome = await run_tool(app, call, yes=False, approve=approve, project_id=project_id)
    print_line(app.redact(result_words(outcome.result)))
