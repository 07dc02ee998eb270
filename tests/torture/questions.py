"""Kill the server of a coding program between its question, the decision, the answer, the effect and what leaves.

No effect without a receipt, none twice, one pull request; what was cut off is denied, never allowed.
"""

import asyncio
import os
import random
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from coilclaw.cli.commands.tool import run_tool
from coilclaw.features.forge.store import pulls_before
from coilclaw.features.runner.leaving import PUSH, push_call
from coilclaw.features.runner.sessions import sessions_of
from coilclaw.features.runner.spec import RepoRef, StartSession, Task
from coilclaw.features.runner.store import load_session
from coilclaw.packets.action import Action
from coilclaw.packets.card import nobody
from coilclaw.packets.forge import PullRequest
from coilclaw.runtime import Runtime
from tests.torture.chamber import await_child, child
from tests.torture.sessions import Torn, follow, killed_at, make_repo, open_home

ASKING = ("hook_asked", "proposed", "decided", "claiming", "begun", "starting", "done", "finishing", "hook_decided")
LEAVING = ("begun", "session_read", "session_pull_kept", "done", "finishing", "finished")
WAYS = (*ASKING, *(f"leaving: {each}" for each in LEAVING))
EFFECTS = 6
GOAL = "\n".join(f"run git commit --allow-empty -qm effect-{number}" for number in range(EFFECTS))
EFFECT = re.compile(r"effect-\d+")


def kill_questions(base: Path, template: Path, way: str, kills: int, seed: int) -> Torn:
    """Kill that often at a point; each time fresh processes go on."""
    shutil.copytree(template, base, symlinks=True)
    make_repo(base)
    chance, tally = random.Random(seed), Torn(way)
    while tally.kills < kills and tally.sessions < 3 * kills + 5 and not tally.wrong:
        tally.sessions += 1
        session_id = f"sess_{os.getpid():08d}{tally.sessions:06d}"
        _one(base, session_id, tally, chance)
        app = open_home(base, lambda _: None)
        _judge(app, session_id, tally)
        app.close()
    if tally.kills < kills and not tally.wrong:
        tally.wrong.append(f"{way} was reached only {tally.kills} times")
    return tally


def _one(base: Path, session_id: str, tally: Torn, chance: random.Random) -> None:
    """One session, from its start to its pull request, with kills on the way."""
    await_child(*child(lambda: _start(base, session_id)))
    for _ in range(3 if tally.how in ASKING else 0):
        times = chance.randrange(EFFECTS)
        killed, _ = await_child(*child(lambda times=times: follow(base, session_id, killed_at(tally.how, times))))
        tally.kills += killed
        if not killed:
            break
    await_child(*child(lambda: follow(base, session_id, lambda _: None)))
    if tally.how not in ASKING:
        point = tally.how.removeprefix("leaving: ")
        killed, _ = await_child(*child(lambda: _leave(base, session_id, killed_at(point, 0))))
        tally.kills += killed
    await_child(*child(lambda: _leave(base, session_id, lambda _: None)))


def _start(base: Path, session_id: str) -> str:
    app = open_home(base, lambda _: None)
    wanted = StartSession(repo=RepoRef(name="site"), provider="fake", task=Task(goal=GOAL))
    asyncio.run(run_tool(app, sessions_of(app).start_call(session_id, wanted), yes=True, source="gateway"))
    app.close()
    return ""


def _leave(base: Path, session_id: str, reached: Callable[[str], None]) -> str:
    """Have its commits opened as a pull request, or go on with what an earlier try left."""
    app = open_home(base, reached)

    async def leave() -> None:
        conveyor = app.conveyor(nobody)
        await conveyor.recover()
        await app.executor(conveyor).run_due()
        if not pulls_of(app, session_id):
            call = await push_call(app, sessions_of(app), session_id, "")
            action = (await run_tool(app, call, yes=False, source="gateway")).action
            yes = await app.approvals(conveyor).approve(action, by="terminal", digest=action.digest)
            assert isinstance(yes, Action)
            await conveyor.execute(yes, asked=True)

    if _commits(app, session_id):
        asyncio.run(leave())
    app.close()
    return ""


def pulls_of(app: Runtime, session_id: str) -> list[PullRequest]:
    """The pull requests of a session."""
    return [each for each in pulls_before(app.db.reader, ("OPEN",), None, 1000) if each.session_id == session_id]


def _commits(app: Runtime, session_id: str) -> list[str]:
    """The effects on its branch, from git's own words."""
    row = load_session(app.db.reader, session_id)
    assert row is not None
    assert row.checkout is not None
    environ = {"PATH": os.environ["PATH"], "GIT_ALTERNATE_OBJECT_DIRECTORIES": row.checkout.cache}
    words = ["git", "-c", "safe.directory=*", "-C", row.checkout.path, "log", "--format=%s", f"{row.checkout.base}.."]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environ)
    return done.stdout.split()


def _judge(app: Runtime, session_id: str, tally: Torn) -> None:
    def wrong(what: str) -> None:
        tally.wrong.append(f"{tally.how}: {session_id} {what}")

    effects = _commits(app, session_id)
    rows = app.db.reader.execute(
        "SELECT a.tool, a.status, a.args_json, count(r.seq) FROM proposed_actions a"
        " LEFT JOIN receipts r ON r.action_id = a.action_id"
        " WHERE json_extract(a.args_json, '$.session_id') = ? GROUP BY a.action_id",
        (session_id,),
    ).fetchall()
    let = {
        EFFECT.findall(msgspec.json.decode(args)["command"])[0]
        for tool, status, args, receipts in rows
        if (tool, status) == ("session_command", "EXECUTED") and receipts
    }
    if repeated := [effect for effect, count in Counter(effects).items() if count > 1]:
        wrong(f"did twice: {repeated}")
    if unproved := set(effects) - let:
        wrong(f"did without a receipt: {sorted(unproved)}")
    if open_ones := [(tool, status) for tool, status, _, receipts in rows if status == "EXECUTING" or not receipts]:
        wrong(f"left without an end: {open_ones}")
    pulls = pulls_of(app, session_id)
    if len(pulls) != bool(effects):
        wrong(f"has {len(pulls)} pull requests and {len(effects)} effects")
    if effects and not any(tool == PUSH and status == "EXECUTED" for tool, status, _, _ in rows):
        wrong("left without a receipt")
