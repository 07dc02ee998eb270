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


@memory.command()
@click.argument("conversation_id", shell_complete=completion.conversations)
@json_option
def show(conversation_id: str, as_json: bool) -> None:
    """Show a conversation, calls and results included."""
    from coilclaw.store.threads import near_thread_ids, recent_messages, thread_exists

    with opened() as app:
        db = app.db.reader
        if not thread_exists(db, conversation_id):
            near = did_you_mean(conversation_id, near_thread_ids(db))
            raise UsageError(f"there is no conversation {conversation_id!r}.", remedy=near)
        messages = recent_messages(db, conversation_id, 100_000)
    if as_json:
        print_json([_named(message) for message in messages])
        return
    from coilclaw.packets.text import visible

    for message in messages:
        tell(f"[{moment(message.created_at, 'seconds')}] {message.role}")
        for call in message.tool_calls:
            tell(f"  → {call.tool} {visible(call.arguments)[:400]}")
        if message.content:
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
