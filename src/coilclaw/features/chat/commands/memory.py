"""coilclaw memory."""

import sys
from typing import TYPE_CHECKING

import click
from msgspec import structs

from coilclaw.cli import completion
from coilclaw.cli.open_home import opened
from coilclaw.cli.output import counted, json_option, moment, print_json, print_rows, tell
from coilclaw.packets.errors import UsageError
from coilclaw.packets.names import did_you_mean

if TYPE_CHECKING:
    from coilclaw.packets.ports import MemoryHit
    from coilclaw.store.threads import MessageRow, ThreadRow

limit_option = click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000))


@click.group()
def memory() -> None:
    """List, search, show or clear past conversations."""


def _named(row: "ThreadRow | MessageRow | MemoryHit") -> dict[str, object]:
    """A row for JSON, with its conversation under the name that people know it by."""
    return {"conversation_id": row.thread_id, **structs.asdict(row)}


@memory.command("list")
@limit_option
@json_option
def list_conversations(limit: int, as_json: bool) -> None:
    """List conversations, the most recent first."""
    from coilclaw.store.threads import list_threads

    with opened() as app:
        threads = list_threads(app.db.reader, limit)
    if as_json:
        print_json([_named(thread) for thread in threads])
        return
    rows = [(t.thread_id, moment(t.updated_at), str(t.messages), t.title) for t in threads]
    print_rows(rows, ("conversation", "last", "messages", "began with"), empty="There are no conversations yet.")


@memory.command(short_help="Search all messages.")
@click.argument("query")
@limit_option
@json_option
def search(query: str, limit: int, as_json: bool) -> None:
    """Search everything that was said; the best and most recent matches come first."""
    with opened() as app:
        hits = app.memory.search(query, limit=limit)
    if as_json:
        print_json([_named(hit) for hit in hits])
        return
    rows = [(hit.thread_id, moment(hit.created_at), hit.role, hit.snippet) for hit in hits]
    print_rows(rows, ("conversation", "when", "who", "what"), empty="Nothing found.")


@memory.command(short_help="Show a conversation, calls and results included.")
@click.argument("conversation_id", shell_complete=completion.conversations)
@click.option("--summaries", is_flag=True, help="Open summaries of earlier messages, which are one line otherwise.")
@json_option
def show(conversation_id: str, summaries: bool, as_json: bool) -> None:
    """Show a conversation, calls and results included; a call that had to wait with what came of it."""
    from coilclaw.features.chat.store.message_page import with_outcomes
    from coilclaw.store.job_history import sessions_named
    from coilclaw.store.threads import near_thread_ids, recent_messages, thread_exists

    with opened() as app:
        db = app.db.reader
        if not thread_exists(db, conversation_id):
            near = did_you_mean(conversation_id, near_thread_ids(db))
            raise UsageError(f"there is no conversation {conversation_id!r}.", remedy=near)
        messages = with_outcomes(db, recent_messages(db, conversation_id, 100_000))
        sessions = sessions_named(db, thread_id=conversation_id)
    if as_json:
        print_json([_named(message) for message in messages])
        return
    told = {message.action_id for message in messages if "waited" in message.metadata}
    for message in messages:
        if message.role != "system" or message.action_id is None or message.action_id not in told:
            print_message(message, summaries=summaries)
    for session_id, state in sessions:
        tell(f"Session {session_id} is {state}: `coilclaw session attach {session_id}`.")


def print_message(message: "MessageRow", *, summaries: bool) -> None:
    """One message as people read it; a summary as one line, unless it is opened."""
    from coilclaw.features.chat.store.message_page import summarised
    from coilclaw.packets.text import visible

    tell(f"[{moment(message.created_at, 'seconds')}] {message.role}")
    for call in message.tool_calls:
        tell(f"  → {call.tool} {visible(call.arguments)[:400]}")
    if folded := summarised(message):
        how = "" if summaries else " (open with --summaries)"
        tell(f"  {counted(folded, 'earlier message')} summed up{how}")
    if message.content and (summaries or not folded):
        tell("\n".join(f"  {line}" for line in visible(message.content).splitlines()))


@memory.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
def clear(yes: bool) -> int:
    """Forget every conversation but those with work under way. Actions, receipts and the audit trail stay."""
    from coilclaw.store.threads import clear_memory

    with opened() as app:
        if not yes:
            if not sys.stdin.isatty():
                raise UsageError("clearing memory needs --yes or an interactive terminal.")
            if not click.confirm("Delete every conversation?", default=False, prompt_suffix=" ", err=True):
                tell("Nothing was changed.")
                return 4
        gone = app.db.write_now(clear_memory)
    tell(f"Deleted {counted(gone.messages, 'message')}.")
    if gone.spared:
        tell(
            f"Kept {counted(len(gone.spared), 'conversation')} with unfinished jobs or actions:"
            f" {', '.join(gone.spared)}. Clear again when they have finished."
        )
    return 0
