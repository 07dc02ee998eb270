"""Signed heads on their way out of the home: appended to the branch `ledger`, which only ever grows."""

import asyncio
from typing import TYPE_CHECKING

from coilclaw.ledger.anchors import HEADS, MOST_BYTES, anchored_at, key_file, set_anchored, stored_lines
from coilclaw.ledger.chain import last_link
from coilclaw.ledger.heads import decode_head
from coilclaw.packets.errors import LedgerBroken
from coilclaw.packets.forge import LEDGER
from coilclaw.packets.receipt import Head
from coilclaw.sandbox.bot_repository import BOT, BotRepository, ForgeRefused, RefMoved, Written
from coilclaw.sandbox.git import have_git
from coilclaw.store.read_connection import reading_apart

if TYPE_CHECKING:
    from coilclaw.runtime import Runtime

TRIES = 20
"""Each time somebody else moved the branch first, and so did part of the work."""


def anchor_heads(app: "Runtime") -> int:
    """Append every signed head that is not on the branch yet; returns how many. Blocking: call it in a thread.

    Without a repository there is nothing to do. A branch that holds other heads than this home is left as it is.
    """
    repository = BotRepository(app.workspace)
    if not repository.is_there() or not have_git():
        return 0
    with reading_apart(app.config.memory.path) as db:
        lines = stored_lines(db)
        size, known = anchored_at(db)
    if not lines:
        return 0
    for _ in range(TRIES):
        tip = repository.tip(LEDGER)
        if tip and (_head(lines[-1]).size, tip) == (size, known):
            return 0
        try:
            return _append(app, repository, tip, lines, (size, known))
        except RefMoved:
            continue
    raise ForgeRefused("the branch `ledger` moved again and again; nothing was anchored.", remedy="Try again later.")


async def anchor_new(app: "Runtime") -> int:
    """Sign and anchor what the branch does not cover yet; how many heads that added."""
    if last_link(app.db.reader)[0] <= anchored_at(app.db.reader)[0]:
        return 0
    await app.ledger.seal_now()
    return await asyncio.to_thread(anchor_heads, app)


def _append(app: "Runtime", repository: BotRepository, tip: str, lines: list[bytes], known: tuple[int, str]) -> int:
    there = _heads_of(repository, tip)
    wanted = b"".join(line + b"\n" for line in lines)
    if not wanted.startswith(there):
        raise LedgerBroken(
            "the branch `ledger` holds other heads than this home, so nothing was anchored.",
            remedy="Run `coilclaw receipt verify --git`; SECURITY.md, 'A broken ledger', says what to do.",
        )
    key = Written(key_file(app.signing_key.name()), app.signing_key.public().hex().encode() + b"\n")
    changes = [Written(HEADS, wanted)] if there != wanted else []
    if not tip or repository.read(tip, key.path) != key.data:
        changes.append(key)
    done, head = there.count(b"\n"), _head(lines[-1])
    if changes:
        if tip != known[1] and done < len(lines) and _head(lines[done]).size <= known[0]:
            app.warn("the branch `ledger` had lost heads that were anchored before; they are appended again.")
        message = f"Anchor heads up to receipt {head.size}\n\nLedger-Head: {head.size}:{head.hash}"
        commit = repository.commit(tip, changes, message, BOT, int(app.clock().timestamp()))
        app.reached("heads_written")
        repository.move(LEDGER, commit, tip)
        app.reached("heads_moved")
        tip = commit
    app.db.write_now(lambda tx: set_anchored(tx, head.size, tip))
    return len(lines) - done


def _head(line: bytes) -> Head:
    head = decode_head(line)
    if head is None:
        raise LedgerBroken(
            "a signed head is damaged, so nothing was anchored.", remedy="Run `coilclaw receipt verify`."
        )
    return head


def _heads_of(repository: BotRepository, tip: str) -> bytes:
    entry = repository.entry(tip, HEADS) if tip else None
    if entry is None:
        return b""
    if entry.size > MOST_BYTES:
        raise ForgeRefused(
            f"{HEADS} on the branch `ledger` is too large ({entry.size} bytes).",
            remedy="Run `coilclaw receipt verify --git`.",
        )
    return repository.blobs([entry.blob])[entry.blob]
