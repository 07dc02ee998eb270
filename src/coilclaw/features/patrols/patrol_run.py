"""One run: a checkout of its own, the command in a box, its output read, and everything told in one transaction."""

import asyncio
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coilclaw.config.runner import PatrolKind
from coilclaw.features.patrols.detect import LOOKED_AT, MOST_BYTES, REPORT, commands_of
from coilclaw.features.patrols.parsers import read_report
from coilclaw.features.patrols.report import PatrolReport, ReportedFinding, clean
from coilclaw.features.patrols.store import PatrolRun, PatrolState, begin_run, finish_run, load_run
from coilclaw.features.patrols.target import settings_of
from coilclaw.features.runner.box import ENVIRONMENT, HOME, session_home
from coilclaw.features.runner.checkouts import Checkout
from coilclaw.features.runner.sessions import sessions_of
from coilclaw.features.runner.sources import source_called
from coilclaw.packets.box import BoxLimits, BoxMount, BoxResult, BoxSpec
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ids import stamp
from coilclaw.packets.text import visible
from coilclaw.runtime.boxed import run_until_stopped
from coilclaw.sandbox.files import read_existing
from coilclaw.sandbox.toolchains import lent

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.store.tx import Tx

OUTPUT_BYTES = 16 << 20
READ_BYTES = 8 << 20
KEPT = 16_000
"""How much of the output is kept to be shown."""
_NOT_FOUND = (126, 127)
_NO_MODULE = re.compile(rb"\S{0,200}python[0-9.]*: No module named [\w.]{1,100}\s*")
"""All that `python3 -m` says when there is no such module; its exit status is that of a failed test."""


class PatrolArgs(msgspec.Struct, frozen=True, kw_only=True):
    """What one run is about."""

    run_id: str
    repo: str
    room: str
    kind: PatrolKind
    ref: str
    command: str
    job_id: str
    quest_id: str
    domains: tuple[str, ...]


async def run_patrol(app: "Runtime", wanted: PatrolArgs) -> PatrolRun | None:
    """Do a run and record it; None if there is no command for it. One that has ended is not done again."""
    known = load_run(app.db.reader, wanted.run_id)
    if known is not None and known.state != "running":
        return known
    checkouts = sessions_of(app).checkouts
    await checkouts.remove(wanted.run_id)  # of a try that was cut off
    try:
        source = source_called(app, wanted.repo)
        try:
            kind = "commit" if wanted.ref else "branch"
            checkout = await checkouts.prepare(wanted.run_id, source, wanted.ref, kind, "write")
            # Files such as .env are for the owner's sessions: what a patrol prints becomes alerts and prompts.
            await checkouts.set_up(checkout, msgspec.structs.replace(source, copy=()))
            folder = _room(checkout, wanted.room)
        except ToolError as error:
            if error.code == "ESTOP":
                raise
            return await _not_run(app, wanted, error)
        command = wanted.command or commands_of({}, _files(folder)).get(wanted.kind, "")
        if not command:
            return None
        run = _new_run(app, wanted, command)
        run = await app.db.write(lambda tx: begin_run(tx, app.clock, run))
        app.reached("patrol_begun")
        result = await run_until_stopped(app, _box(app, wanted, checkout, folder, run.command))
        if result is None:
            raise ToolError("ESTOP is engaged.", code="ESTOP", begun=False)
        report = await asyncio.to_thread(_read, app, wanted.kind, checkout, result)
        app.reached("patrol_ran")
        done = _ended(app, run, result, report)
        trusted = None if done.state == "error" else report
        return await app.db.write(lambda tx: finish_run(tx, app.clock, done, trusted, checkout.base))
    finally:
        await asyncio.shield(checkouts.remove(wanted.run_id))


def _new_run(app: "Runtime", wanted: PatrolArgs, command: str) -> PatrolRun:
    return PatrolRun(
        run_id=wanted.run_id, repo=wanted.repo, room=wanted.room, kind=wanted.kind, checkout_ref=wanted.ref, base="",
        job_id=wanted.job_id, quest_id=wanted.quest_id, command=app.redact(command), format="", state="running",
        reason="", passed=0, failed=0, skipped=0, findings=0, seconds=0.0, output="", started_at=stamp(app.clock()),
        ended_at=None,
    )  # fmt: skip


async def _not_run(app: "Runtime", wanted: PatrolArgs, error: ToolError) -> PatrolRun:
    """A run that could not begin says so, and changes no alert."""
    begun = _new_run(app, wanted, wanted.command)
    reason = clean(app.redact(f"{error.message} {error.remedy}".strip()), 400)
    failed = msgspec.structs.replace(begun, state="error", reason=reason)

    def write(tx: "Tx") -> PatrolRun:
        begin_run(tx, app.clock, begun)
        return finish_run(tx, app.clock, failed, None, "")

    return await app.db.write(write)


def _room(checkout: Checkout, room: str) -> Path:
    """The folder to look after: a real one of the checkout, without links on the way."""
    folder = Path(os.path.normpath(Path(checkout.path, room)))
    inside = folder == Path(checkout.path) or str(folder).startswith(f"{checkout.path}/")
    if not inside or os.path.realpath(folder) != str(folder) or not folder.is_dir():
        raise ToolError(f"the repository has no folder {room[:80]!r}.", code="ROOM_UNKNOWN", begun=False)
    return folder


def _files(folder: Path) -> dict[str, bytes]:
    found = {name: read_existing(folder, name, MOST_BYTES) for name in LOOKED_AT}
    return {name: data for name, data in found.items() if data is not None}


def _box(app: "Runtime", wanted: PatrolArgs, checkout: Checkout, folder: Path, command: str) -> BoxSpec:
    """The walls of a session, for one command that ends. Builds remove files; here they are only its own."""
    runner, seconds = app.config.runner, settings_of(app, wanted.repo).patrol_timeout_seconds
    home = session_home(checkout)
    (home / "tmp").mkdir(parents=True, exist_ok=True, mode=0o700)
    toolchains, path = lent(app.config.security.toolchains)
    return BoxSpec(
        command=command,
        workspace=checkout.path,
        cwd=str(folder),
        environment=(("PATH", path), *ENVIRONMENT, ("CI", "true"), (REPORT, f"{HOME}/report")),
        domains=wanted.domains,
        mounts=(
            *sessions_of(app).checkouts.box_mounts(checkout),
            BoxMount(source=str(home), at=HOME, writable=True),
            *toolchains,
        ),
        limits=BoxLimits(
            wall_seconds=seconds,
            cpu_seconds=int(seconds) * (os.cpu_count() or 1) + 1,
            memory_bytes=runner.memory_bytes,
            processes=runner.processes,
            open_files=runner.open_files,
            file_bytes=1 << 30,
            write_bytes=max(runner.disk_bytes // 4, 1 << 30),
            output_bytes=OUTPUT_BYTES,
            kept_bytes=READ_BYTES,
            address_space=False,
        ),
    )


def _read(app: "Runtime", kind: PatrolKind, checkout: Checkout, result: BoxResult) -> PatrolReport:
    """The report with every secret left out: what it holds goes into alerts and lists."""
    left = read_existing(session_home(checkout), "report", READ_BYTES) or b""
    report = read_report(kind, result.stdout, result.stderr, left, result.exit_code)
    findings = tuple(_redacted(app, each) for each in report.findings)
    return msgspec.structs.replace(report, findings=findings, unaudited=app.redact(report.unaudited))


def _redacted(app: "Runtime", found: ReportedFinding) -> ReportedFinding:
    rule, path, text = (app.redact(each) for each in (found.rule, found.path, found.text))
    return msgspec.structs.replace(found, rule=rule, path=path, text=text)


def _ended(app: "Runtime", run: PatrolRun, result: BoxResult, report: PatrolReport) -> PatrolRun:
    state, reason = _judged(result, report)
    told = app.redact(b"\n".join(filter(None, (result.stdout, result.stderr)))[-4 * KEPT :].decode("utf-8", "replace"))
    return msgspec.structs.replace(
        run,
        format=report.format,
        state=state,
        reason=clean(app.redact(reason), 400),
        passed=report.passed,
        failed=report.failed,
        skipped=report.skipped,
        findings=len(report.findings),
        seconds=result.seconds,
        output=visible(told)[-KEPT:],
    )


def _judged(result: BoxResult, report: PatrolReport) -> tuple[PatrolState, str]:
    """How a run went. One that could not run, or could not look, is never one that passed."""
    if result.end not in ("exited", "left_behind"):  # a daemon that a build leaves is killed, and no fault
        return "error", result.reason or f"The command ended by {result.end}."
    if result.exit_code in _NOT_FOUND or (not result.stdout and _NO_MODULE.fullmatch(result.stderr)):
        told = [line.strip() for line in result.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        return "error", (
            "Its program is not installed where boxes run, or cannot be executed. Install it for this machine, let the"
            " repository bring it (`setup`), or lend its folder with security.toolchains."
            f"{f' It said: {told[-1][:120]}' if told else ''}"
        )
    if report.unaudited:
        return "not_audited", f"Not audited: {report.unaudited}."
    wrong = report.failed > 0 or any(each.severity in ("error", "critical") for each in report.findings)
    return ("failed" if wrong or result.exit_code != 0 else "passed"), ""
