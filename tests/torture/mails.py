"""Kill processes at each boundary of a draft and of a sent mail, against Google in its three moods: each once."""

import asyncio
import os
import shutil
import signal
from pathlib import Path
from typing import get_args

import msgspec

from coilclaw.app import EXTENSIONS
from coilclaw.config import Home, load
from coilclaw.config.schema import Executor
from coilclaw.features.mail.writing import KEY, key_of
from coilclaw.gate.conveyor import Outcome
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import ToolCall
from coilclaw.packets.card import Answer
from coilclaw.runtime import Runtime
from coilclaw.sandbox.fake_google import FakeGoogle
from coilclaw.sandbox.fake_google_mail import Mood, compose
from coilclaw.sandbox.fake_oauth import OAuthReply
from tests.features.mail.accounts_harness import BOT, ENVIRON, OWNER, section
from tests.features.mail.mail_harness import connect
from tests.torture.chamber import await_child, child
from tests.torture.life import POINTS as BOUNDARIES
from tests.torture.life import Clock, come_to_rest

TOOLS = ("gmail_create_draft_reply", "gmail_send_draft")
MOODS: tuple[Mood, ...] = get_args(Mood)
POINTS = (*BOUNDARIES, "effect", "cut", "lost")
"""The boundaries of the conveyor; killed right after the effect; an answer cut off; a request cut off before it."""
SCOPES = ("gmail.readonly", "gmail.send", "gmail.compose")
PATHS = {TOOLS[0]: "/gmail/v1/users/me/drafts", TOOLS[1]: "/gmail/v1/users/me/drafts/send"}


class Mailed(msgspec.Struct):
    """What came of one kill."""

    how: str
    tool: str
    mood: str
    kills: int = 0
    effects: int = 0
    status: str = ""
    said: list[str] = []


def kill_mail(base: Path, template: Path, point: str, tool: str, mood: Mood) -> Mailed:
    """Propose and approve one call, die at a boundary, come to rest in a fresh process, and count."""
    shutil.copytree(template, base, symlinks=True)
    tally = Mailed(point, tool, mood)
    with FakeGoogle(OWNER, BOT) as google:
        box = google.mailbox(BOT)
        box.mood = mood
        asked = box.add(compose(sender="dana@partner.example", to=BOT, subject="Numbers?", text="?"))
        own = {KEY: key_of("draft"), "Message-ID": f"<{key_of('draft')}@example.com>"}
        answer = compose(
            sender=BOT,
            to="dana@partner.example",
            subject="Re: Numbers?",
            text="Yes.",
            headers={**own, "In-Reply-To": asked.header("Message-ID")},
        )
        draft = box.create_draft(answer, asked.thread_id)
        args = {"draft_id": draft.draft_id} if tool == TOOLS[1] else {"message_id": asked.message_id, "body": "Yes."}
        app = _open(base, google, lambda _: None)[0]
        connect(app, google, "bot", BOT, [f"https://www.googleapis.com/auth/{name}" for name in SCOPES])
        app.close()
        living: list[int] = []
        _script(google, PATHS[tool], point, living)
        pid, reading = child(lambda: _live(base, google, ToolCall.of(tool, args, identity="bot"), point))
        living.append(pid)
        tally.kills += await_child(pid, reading)[0]
        google.instead.clear()
        google.afterwards.clear()
        tally.status = await_child(*child(lambda: _settle(base, google)))[1]
        tally.effects = len(google.sent) if tool == TOOLS[1] else len(box.drafts) - 1
    _judge(tally)
    return tally


def _script(google: FakeGoogle, path: str, point: str, living: list[int]) -> None:
    def dies(reply: OAuthReply) -> OAuthReply:
        os.kill(living[0], signal.SIGKILL)
        return msgspec.structs.replace(reply, cut=True)

    if point == "effect":
        google.afterwards[path] = [dies]
    elif point == "cut":
        google.afterwards[path] = [lambda reply: msgspec.structs.replace(reply, cut=True)]
    elif point == "lost":
        google.instead[path] = [OAuthReply(cut=True)]


def _open(base: Path, google: FakeGoogle, reached) -> tuple[Runtime, Clock]:
    home, environ = Home(base / "home"), {"HOME": str(base / "user"), **ENVIRON}
    config = load(home, environ).config
    config = msgspec.structs.replace(
        config, google=section(google), executor=Executor(max_attempts=4, backoff_seconds=0.01)
    )
    app = Runtime(home, config, environ, lambda level, event, fields: None, reached=reached, extensions=EXTENSIONS)
    app.clock = clock = Clock(0.0)
    return app, clock


def _live(base: Path, google: FakeGoogle, call: ToolCall, point: str) -> str:
    def reached(at: str) -> None:
        if at == point:
            os.kill(os.getpid(), signal.SIGKILL)

    async def nobody(_) -> Answer:
        return Answer(approved=None)

    async def live() -> None:
        app, _ = _open(base, google, reached)
        conveyor = app.conveyor(nobody)
        turn = Turn("turn_mail", "", "cli")
        action = await conveyor.intake.proposed(call, turn, "mail-key")
        waiting = await conveyor.carry(action, turn, stored=False)
        answered = await app.approvals(conveyor).approve(waiting.action, by="terminal", digest=waiting.action.digest)
        assert not isinstance(answered, Outcome), answered.result.output
        await conveyor.execute(answered)
        app.close()

    asyncio.run(live())
    return ""


def _settle(base: Path, google: FakeGoogle) -> str:
    app, clock = _open(base, google, lambda _: None)
    asyncio.run(come_to_rest(app, clock))
    row = app.db.reader.execute("SELECT status FROM proposed_actions WHERE idempotency_key = 'mail-key'").fetchone()
    app.close()
    return "" if row is None else str(row[0])


def _judge(tally: Mailed) -> None:
    """Done means once, not done means never; only a service that drops every header may leave it open."""
    wanted = {"EXECUTED": (1,), "UNKNOWN": (0, 1)}.get(tally.status, (0,))
    where = f"{tally.tool} at {tally.how}, {tally.mood}"
    if tally.effects not in wanted:
        tally.said.append(f"{where}: {tally.status or 'nothing stored'}, {tally.effects} effects")
    if tally.status == "UNKNOWN" and not (tally.mood == "strips" and tally.tool == TOOLS[1]):
        tally.said.append(f"{where}: it could have been known")
    if not tally.kills and tally.how not in ("cut", "lost"):
        tally.said.append(f"{where}: it was never killed")


def table(tallies: list[Mailed]) -> str:
    """The tallies as a markdown table."""
    lines = ["| mail killed at | tool | Google | kills | effects | end |", "|---|---|---|---:|---:|---|"]
    lines += [f"| {t.how} | {t.tool} | {t.mood} | {t.kills} | {t.effects} | {t.status} |" for t in tallies]
    return "\n".join(lines)
