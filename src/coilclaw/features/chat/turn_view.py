"""A turn as it is shown while it runs: rendered and moving at a terminal that can, plain text elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from coilclaw.cli.output import colours
from coilclaw.config.prices import MILLION
from coilclaw.features.chat.post_message import CommandOut, TextOut
from coilclaw.packets.ids import stamp
from coilclaw.store.usage import usage_rows

if TYPE_CHECKING:
    from coilclaw.gate.running import CommandOutput
    from coilclaw.packets.canonical import Json
    from coilclaw.runtime import Runtime


@contextmanager
def shown(app: "Runtime", thread_id: str, write: Callable[[str], object] | None = None) -> Iterator[TextOut]:
    """Where the answer goes; what commands of the conversation write is shown too. `write` is for plain text."""
    with ExitStack() as stack:
        live = None
        if write is None and colours(sys.stdout) and sys.stderr.isatty():
            from coilclaw.cli.live import moving

            began = stamp(app.clock())
            live = stack.enter_context(moving(lambda: spent_words(app, began, thread_id)))
        text_to = live.answer if live is not None else write or sys.stdout.write
        out = TextOut(app.redactor, text_to)

        plain = CommandOut(thread_id, text_to)

        def output(output: "CommandOutput") -> None:
            if output.thread_id != thread_id or app.commands.in_background(output.action_id):
                return  # what goes on in the background would stand in the middle of another call
            if live is None:
                plain(output)
            else:
                live.output(output.piece)

        def event(name: str, fields: "dict[str, Json]") -> None:
            out.event(name)
            if live is not None:
                told = {field: app.redact(value) for field, value in fields.items() if isinstance(value, str)}
                live.event(name, told)

        app.watchers.append(event)
        stack.callback(app.watchers.remove, event)
        stack.enter_context(app.commands.watched(output))
        yield out


def spent_words(app: "Runtime", since: str, thread_id: str) -> str:
    """Tokens that a conversation used since then, and what they cost where every price is known."""
    rows = usage_rows(app.db.reader, since, "model", thread_id)
    tokens = sum(row.input_tokens + row.output_tokens for row in rows)
    prices = app.config.prices
    words = f"{tokens:,} tokens" if tokens else ""
    if cached := sum(row.cached_tokens for row in rows):
        words += f" ({cached:,} cached)"
    if not tokens or any(row.model not in prices for row in rows):
        return words
    cost = sum(
        prices[row.model].cost(read=row.input_tokens, cached=row.cached_tokens, written=row.output_tokens)
        for row in rows
    )
    return f"{words}, {cost / MILLION**2:.4f}"
