"""Kill the server, nursery and keepers of coding sessions at named points and at random: no line missing or doubled."""

import asyncio
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from coilclaw.app import EXTENSIONS
from coilclaw.cli.commands.tool import run_tool
from coilclaw.config import Home, load
from coilclaw.config.runner import Repo
from coilclaw.features.runner.follower import Follower
from coilclaw.features.runner.hub import Hub
from coilclaw.features.runner.sessions import sessions_of
from coilclaw.features.runner.spec import RepoRef, StartSession
from coilclaw.features.runner.states import ENDED
from coilclaw.features.runner.store import events_after, load_session
from coilclaw.packets.card import nobody
from coilclaw.runtime import Runtime
from tests.torture.chamber import await_child, child

STARTING = ("checkout_made", "session_prepared", "session_kept")
FOLLOWING = ("session_followed", "session_recorded", "session_ending", "session_ended")
POINTS = (*STARTING, *FOLLOWING)
"""The checkout is made, the row says so, the keeper runs; it is followed, something was recorded, its end is about to
be written down with a receipt, and is."""
RANDOMLY = {
    "random": ("server", "server", "nursery", "keeper"),
    "keeper": ("server", "keeper"),
    "nursery": ("server", "nursery"),
}
"""What is killed at random moments; the server each time, as whatever else dies has to be found out by the next."""
LINES = 120
LINE = re.compile(r"^line (\d+) of it$", re.MULTILINE)
TYPED = f"for i in $(seq 1 {LINES}); do echo line $i of it; sleep 0.004; done; exit 7"


class Torn(msgspec.Struct):
    """What came of killing in one way."""

    how: str
    kills: int = 0
    sessions: int = 0
    lost: int = 0
    """Sessions whose keeper was killed, and which say so."""
    wrong: list[str] = []


def make_repo(base: Path) -> None:
    """A repository to work on."""
    folder = base / "site"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("hello\n")
    author = ("-c", "user.name=T", "-c", "user.email=t@example.com")
    for command in (("init", "-q"), ("add", "."), (*author, "commit", "-qm", "one")):
        subprocess.run(["git", "-C", str(folder), *command], check=True, capture_output=True)


def open_home(base: Path, reached: Callable[[str], None]) -> Runtime:
    """The home with its repository, and what is called at each named point."""
    home, environ = Home(base / "home"), {"HOME": str(base / "user"), "PATH": os.environ.get("PATH", "")}
    config = load(home, environ).config
    runner = msgspec.structs.replace(config.runner, fake_provider=True)
    config = msgspec.structs.replace(config, runner=runner, repos={"site": Repo(path=base / "site")})
    return Runtime(home, config, environ, lambda level, event, fields: None, reached=reached, extensions=EXTENSIONS)


def killed_at(point: str, times: int) -> Callable[[str], None]:
    """What kills this process at a point, after so many times that it lets pass."""
    left = times

    def reached(at: str) -> None:
        nonlocal left
        left -= at == point
        if at == point and left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return reached


def _start(base: Path, session_id: str, reached: Callable[[str], None]) -> str:
    """Start a session, or go on with what an earlier try left; says its state."""
    app = open_home(base, reached)

    async def start() -> None:
        conveyor = app.conveyor(nobody)
        await conveyor.recover()
        await app.executor(conveyor).run_due()
        if load_session(app.db.reader, session_id) is None:
            wanted = StartSession(repo=RepoRef(name="site"))
            await run_tool(app, sessions_of(app).start_call(session_id, wanted), yes=True, source="gateway")

    asyncio.run(start())
    row = load_session(app.db.reader, session_id)
    app.close()
    return "" if row is None else row.state


def _type(base: Path, session_id: str) -> str:
    app = open_home(base, lambda _: None)
    asyncio.run(sessions_of(app).type_in(session_id, TYPED, line=True))
    app.close()
    return ""


def follow(base: Path, session_id: str, reached: Callable[[str], None]) -> str:
    """Be the server, until the session is over."""
    app = open_home(base, reached)

    async def serve() -> None:
        sessions, conveyor, stop = sessions_of(app), app.conveyor(nobody), asyncio.Event()
        await conveyor.recover()
        await app.executor(conveyor).run_due()
        following = asyncio.ensure_future(Follower(app, conveyor, sessions, Hub(app, sessions)).run(stop))
        while sessions.get(session_id).state not in ENDED or sessions.keepers.running():
            await asyncio.sleep(0.02)
        stop.set()
        await following

    asyncio.run(serve())
    app.close()
    return ""


def _kill(base: Path, session_id: str, whom: str) -> str:
    """Kill its keeper, or the nursery that the keeper comes from; says if there was one."""
    app = open_home(base, lambda _: None)

    async def kill() -> str:
        keeper = await sessions_of(app).keepers.attach(session_id)
        if keeper is None:
            return ""
        pid = keeper.pid if whom == "keeper" else _nursery_of(keeper.pid)
        if pid:
            os.kill(pid, signal.SIGKILL)
        await keeper.close()
        return "killed" if pid else ""

    said = asyncio.run(kill())
    app.close()
    return said


def _nursery_of(pid: int) -> int:
    """Its parent, unless another process has taken its place because the nursery is gone."""
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    words = Path(f"/proc/{parent}/cmdline").read_bytes().split(b"\0")
    return parent if any(each.endswith(b"/nursery.py") for each in words) else 0


def kill_sessions(base: Path, template: Path, how: str, kills: int, seed: int) -> Torn:
    """Kill that often at a point, at `random` moments, or the `keeper`; each time fresh processes go on."""
    shutil.copytree(template, base, symlinks=True)
    make_repo(base)
    chance, tally = random.Random(seed), Torn(how)
    while tally.kills < kills and tally.sessions < 3 * kills + 5 and not tally.wrong:
        tally.sessions += 1
        session_id = f"sess_{os.getpid():08d}{tally.sessions:06d}"
        orphaned = _one(base, session_id, tally, chance)
        app = open_home(base, lambda _: None)
        _judge(app, session_id, tally, orphaned=orphaned)
        app.close()
    if tally.kills < kills and not tally.wrong:
        tally.wrong.append(f"{how} was reached only {tally.kills} times")
    return tally


def _one(base: Path, session_id: str, tally: Torn, chance: random.Random) -> bool:
    """One session, from its start to its end, with kills on the way; whether its keeper was among them."""
    how, state, orphaned = tally.how, "", False
    if how in STARTING:
        killed, state = await_child(*child(lambda: _start(base, session_id, killed_at(how, 0))))
        tally.kills += killed
    if not state:
        _, state = await_child(*child(lambda: _start(base, session_id, lambda _: None)))
    if state != "RUNNING":
        tally.wrong.append(f"{session_id} is {state or 'not there'} after its start")
        return False
    await_child(*child(lambda: _type(base, session_id)))
    for _ in range(4 if how not in STARTING else 0):
        if how in FOLLOWING:
            times = chance.randrange(12) if how == "session_recorded" else 0
            pid, reading = child(lambda times=times: follow(base, session_id, killed_at(how, times)))
        else:
            pid, reading = child(lambda: follow(base, session_id, lambda _: None))
            time.sleep(chance.uniform(0.05, 1.5))
            whom = chance.choice(RANDOMLY[how])
            if whom != "server":
                died = await_child(*child(lambda whom=whom: _kill(base, session_id, whom)))[1] == "killed"
                tally.kills += died
                orphaned = orphaned or (died and whom == "keeper")
            os.kill(pid, signal.SIGKILL)
        killed = await_child(pid, reading)[0]
        tally.kills += killed
        if not killed:
            break
    await_child(*child(lambda: follow(base, session_id, lambda _: None)))
    return orphaned


def _judge(app: Runtime, session_id: str, tally: Torn, *, orphaned: bool) -> None:
    row = load_session(app.db.reader, session_id)
    if row is None or tally.wrong:
        return

    def wrong(what: str) -> None:
        tally.wrong.append(f"{tally.how}: {session_id} {what}")

    text = sessions_of(app).recorded_text(session_id)
    found = [int(each) for each in LINE.findall(text.replace("\r", ""))]
    tally.lost += row.code == "LOST"
    if row.code == "LOST" and orphaned:
        if found != list(range(1, len(found) + 1)):
            wrong(f"has lines {found}")
    elif (row.code, row.exit_code) != ("EXITED", 7):
        wrong(f"ended as {row.code}, {row.exit_code}: {row.reason}")
    elif found != list(range(1, LINES + 1)):
        wrong(f"has lines {found}")
    numbers = [each.seq for each in events_after(app.db.reader, row, 0, 10_000)]
    if numbers != list(range(1, row.seq + 1)):
        wrong(f"has events {numbers}")
    actions = app.db.reader.execute(
        "SELECT a.tool, count(r.seq) FROM proposed_actions a LEFT JOIN receipts r ON r.action_id = a.action_id"
        " WHERE json_extract(a.args_json, '$.session_id') = ? GROUP BY a.action_id ORDER BY a.tool",
        (session_id,),
    ).fetchall()
    if [tool for tool, _ in actions] != ["session_end", "session_start"] or not all(count for _, count in actions):
        wrong(f"has receipts {actions}")
    left = sessions_of(app).keepers.running()
    if left:
        wrong(f"left keepers: {left}")


def table(tallies: list[Torn]) -> str:
    """The tallies as a markdown table."""
    lines = ["| killed at | kills | sessions | keepers lost | wrong |", "|---|---:|---:|---:|---:|"]
    lines += [f"| {one.how} | {one.kills} | {one.sessions} | {one.lost} | {len(one.wrong)} |" for one in tallies]
    return "\n".join(lines)
