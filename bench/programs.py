"""Coding programs: what a question costs its program, what a decision costs beyond its commits, what twenty without
a screen take, and how much later than in a bare box one is there.

With COILCLAW_TRY_CLIS (see scripts/try-clis) the memory is compared with that of Claude Code, waiting for its task.
"""

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.gate import BareCommits, last_row
from bench.home import BenchHome
from bench.patrols import make_repo
from bench.rounds import Case, Timing, timed, timings
from bench.row import Plan, Row, alone, beside
from bench.terminals import Ground, proportional
from coilclaw.app import EXTENSIONS
from coilclaw.cli.commands.tool import run_tool
from coilclaw.config.runner import Repo
from coilclaw.features.runner.adapters import claude, hook
from coilclaw.features.runner.adapters.contract import PYTHON, HookAsk
from coilclaw.features.runner.box import keeper_order
from coilclaw.features.runner.hooks import HookDesk
from coilclaw.features.runner.sessions import sessions_of
from coilclaw.features.runner.spec import RepoRef, StartSession, Task
from coilclaw.features.runner.store import Session, add_session, load_session, move
from coilclaw.features.runner.structured import relay
from coilclaw.runtime import Runtime
from coilclaw.sandbox.box import open_box
from coilclaw.sandbox.keepers import AttachedTerminal
from coilclaw.sandbox.process_tree import descendants
from coilclaw.store.tx import Tx

_COUNT = 20
_QUESTION = json.dumps({"hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {"file_path": "a"}})
_NOTHING = "import os, sys\nsys.stdin.buffer.read()\nos._exit(0)\n"


def measure(plan: Plan) -> Iterator[Row]:
    """The questions first, then the crowd."""
    home = BenchHome(plan.folder / "programs", extensions=EXTENSIONS)
    bare = BareCommits(home.database.with_name("bare.sqlite"))
    try:
        with asyncio.Runner() as loop:
            desk = _desk(home, plan.folder)
            yield loop.run(_asked(plan, desk))
            yield _decided(plan, home, desk, bare, loop)
            yield loop.run(_crowd(plan))
            yield loop.run(_begun(plan, home))
    finally:
        bare.close()
        home.close()


def _desk(home: BenchHome, folder: Path) -> HookDesk:
    async def nothing(_: str) -> None:
        pass

    return HookDesk(home.app, home.conveyor(), _session(home.app), nothing, folder / "guarded", nothing)


def _session(app: Runtime) -> Session:
    spec = StartSession(repo=RepoRef(name="site"), provider="fake")

    def write(tx: Tx) -> Session | None:
        add_session(tx, app.clock, "sess_bench000000", spec, action_id="", by="owner")
        for state in ("PREPARING_WORKSPACE", "STARTING_PROVIDER", "RUNNING"):
            move(tx, app.clock, "sess_bench000000", state)
        return load_session(tx, "sess_bench000000")

    made = app.db.write_now(write)
    assert made is not None
    return made


async def _asked(plan: Plan, desk: HookDesk) -> Row:
    """A question that only reads, by the hook as programs run it, beside one that reads its input and exits with 0."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await desk.serve(0, reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    ours, nothing = plan.folder / "hook.py", plan.folder / "nothing.py"
    ours.write_text(Path(hook.__file__).read_text().replace("3129", str(port)))
    nothing.write_text(_NOTHING)
    found: dict[str, list[float]] = {"ours": [], "nothing": []}
    for number in range(plan.rounds + 1):
        for name, file in (("ours", ours), ("nothing", nothing)):
            began = time.perf_counter()
            process = await asyncio.create_subprocess_exec(
                PYTHON, "-I", "-S", str(file), "fake", "60", stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            await process.communicate(_QUESTION.encode())
            assert process.returncode == 0
            if number:
                found[name].append(time.perf_counter() - began)
    server.close()
    measured, against = (Timing.of(found[name]).scaled(1e3) for name in ("ours", "nothing"))
    return beside("programs", "a hook that asks", "ms", measured, "a hook that only exits", against, at_most=2.0)


def _decided(plan: Plan, home: BenchHome, desk: HookDesk, bare: BareCommits, loop: asyncio.Runner) -> Row:
    """A command that the lists allow, with its receipt."""
    times = plan.size(24, 4)
    count = iter(range(1 << 30))

    async def several() -> None:
        for _ in range(times):
            ask = HookAsk(kind="command", tool="Bash", call_id=f"call_{next(count)}", command="ls -la src")
            answer = await desk.answer(ask)
            assert answer.allow, answer.reason

    loop.run(several())
    reader = home.app.db.reader
    action, receipt = last_row(reader, "proposed_actions"), last_row(reader, "receipts")
    begun = last_row(reader, "audit_log", "event_type = 'tool_begun'")
    ended = last_row(reader, "audit_log", "event_type = 'tool_completed'")

    def commits() -> None:
        bare.commit(action, begun)
        bare.commit(action, receipt, ended)

    def decisions() -> float:
        desk._asked.clear()  # noqa: SLF001  # its limit on questions a minute is not what is measured
        began = time.perf_counter()
        loop.run(several())
        return (time.perf_counter() - began) / times

    cases: dict[str, Case] = {"ours": decisions, "bare": timed(commits, times)}
    found = timings(cases, plan.rounds)
    measured, against = found["ours"].scaled(1e3), found["bare"].scaled(1e3)
    return beside("programs", "a command that is allowed", "ms", measured, "2 bare commits", against, at_most=3.0)


async def _crowd(plan: Plan) -> Row:
    """What a session without a screen takes beside its program: keeper, box and relay."""
    count = _COUNT
    ground = Ground(plan, open_box(hide=()).tier)
    file = ground.workspace / "relay.py"
    file.write_text(Path(relay.__file__).read_text())
    command = (PYTHON, "-I", "-S", str(file), "/bin/sleep", "600")
    attached = await asyncio.gather(*(ground.start(f"crowd{number}", *command) for number in range(count)))
    await asyncio.sleep(2)
    pids = [pid for each in attached for pid in (each.pid, *descendants(each.pid)) if not _is_program(pid)]
    memory = Timing.of([sum(map(proportional, pids)) / count / 1e6])
    await ground.keepers.end_all()
    what = f"memory of one of {count} sessions without a screen, beyond its program (PSS)"
    folder = os.environ.get("COILCLAW_TRY_CLIS", "")
    if not folder:
        return alone("programs", what, "MB", memory, note="without COILCLAW_TRY_CLIS nothing to compare it to")
    program = Timing.of([_program_memory(folder) / 1e6])
    return beside("programs", what, "MB", memory, "Claude Code before its task", program, at_most=0.05)


async def _begun(plan: Plan, home: BenchHome) -> Row:
    """From the owner's wish to the first byte of a program, less what that takes in an equal box on a checkout."""
    app, folder = home.app, plan.folder / "begun"
    make_repo(folder, 1)
    runner = msgspec.structs.replace(app.config.runner, fake_provider=True)
    app.config = msgspec.structs.replace(app.config, runner=runner, repos={"begun": Repo(path=folder)})
    app.real_boxes = True
    sessions, wanted = sessions_of(app), StartSession(repo=RepoRef(name="begun"), provider="fake", task=Task(goal="x"))
    later: list[float] = []
    for number in range(plan.rounds + 1):
        session_id, began = f"sess_begun{number:08d}", time.perf_counter()
        await run_tool(app, sessions.start_call(session_id, wanted), yes=True, source="gateway")
        ours = await _first_byte(await sessions.keepers.attach(session_id, 0), began)
        order = keeper_order(app, sessions.checkouts, sessions.get(session_id))
        began = time.perf_counter()
        started = await sessions.keepers.start(msgspec.structs.replace(order, session_id=f"sess_equal{number:08d}"))
        later.append(ours - await _first_byte(started, began))
        await sessions.keepers.end_all()
        await sessions.record_end(session_id, "STOPPED", "", None)
    found = Timing.of(later[1:]).scaled(1e3)
    note = "checkout, decision and receipts: 1.2x for a program that itself takes five times as long to begin"
    return alone("programs", "start to the first byte of a program, beyond an equal box", "ms", found, note=note)


async def _first_byte(attached: AttachedTerminal | None, began: float) -> float:
    if attached is None:
        raise RuntimeError("the keeper is gone")
    async for _ in attached.output():
        break
    took = time.perf_counter() - began
    await attached.close()
    return took


def _is_program(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "sleep"
    except OSError:
        return True


def _program_memory(folder: str) -> int:
    command = [claude.program(folder), "-p", "--verbose", "--input-format", "stream-json"]
    environment = {"HOME": "/nonexistent", "ANTHROPIC_API_KEY": "none", "DISABLE_AUTOUPDATER": "1"}
    process = subprocess.Popen(
        [*command, "--output-format", "stream-json"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment
    )
    try:
        time.sleep(5)
        return proportional(process.pid)
    finally:
        process.kill()
        process.wait()
