"""Required checks of a pull request, on what the merge would give: built-in ones, then the owner's commands in a box.

A check that cannot be carried out is a failed check with its reason; only a cancellation is passed on.
"""

import asyncio
import math
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw.features.forge.actions.workflow_check import changed_workflow_faults
from coilclaw.features.forge.builtin_checks import (
    CHANGE_BYTES,
    FILE_BYTES,
    MOST_CHANGES,
    CheckTerms,
    MergeResult,
    evidence_faults,
    path_faults,
    policy_faults,
    registry_faults,
    secret_faults,
    skill_faults,
    sop_faults,
)
from coilclaw.features.forge.inert import shortened
from coilclaw.features.forge.paths import is_runtime_file
from coilclaw.features.skills.skill import FILE as SKILL_FILE
from coilclaw.features.skills.skill import FOLDER as FOLDER_OF_SKILLS
from coilclaw.features.skills.skill import SKILL_BYTES
from coilclaw.gate.grants import OUTPUT_BYTES, OUTPUT_KEPT
from coilclaw.gate.policy_file import POLICY_BYTES
from coilclaw.gate.policy_match import hidden_paths
from coilclaw.packets.box import BoxLimits, BoxResult, BoxSpec
from coilclaw.packets.canonical import canonical_bytes, sha256_hex
from coilclaw.packets.errors import CoilclawError, ToolError
from coilclaw.packets.forge import Check, PullRequest
from coilclaw.packets.text import one_line
from coilclaw.runtime.boxed import run_until_stopped
from coilclaw.sandbox.bot_repository import FILE, PROGRAM, BotRepository
from coilclaw.sandbox.toolchains import lent
from coilclaw.store.jobs import load_job
from coilclaw.tools.approval import RUNTIME_TOOLS

if TYPE_CHECKING:
    from coilclaw.config.forge import ForgeCheck
    from coilclaw.runtime.runtime import Runtime

BUILT_IN = tuple(
    f"coilclaw/{name}" for name in ("paths", "evidence", "secrets", "policy", "registry", "sops", "skills", "workflows")
)
MOST_DETAILS = 50
DETAIL_CHARACTERS = 400
TAIL_LINES = 40
"""Of what a command wrote, the end is kept: that is where it says what went wrong."""
FOLDER = ".check-"
LEFT_SECONDS = 86_400
"""A folder of that age belongs to no check that still runs."""
_FILES = (FILE, PROGRAM)


async def run_checks(
    app: "Runtime", pull: PullRequest, main: str, merged: str, *, is_runtime: Callable[[str], bool] | None = None
) -> tuple[Check, ...]:
    """Check what merging a pull request gives: `merged` is that tree, `main` the commit it is compared with.

    `is_runtime` says which paths the runtime itself writes in it; otherwise they are the three of its job.
    """
    repository = BotRepository(app.workspace)
    checks = await _built_in(app, repository, pull, main, merged, is_runtime)
    sound = checks[0].passed  # a tree with such names or links is not written to any disk
    own: list[Check] = []
    for name, wanted in sorted(app.config.forge.checks.items()):
        if sound:
            own.append(await _own_check(app, repository, merged, name, wanted))
        else:
            own.append(Check(name=name, passed=False, summary="It was not run, because coilclaw/paths failed."))
    return (*checks, *own)


# Built in


async def _built_in(
    app: "Runtime",
    repository: BotRepository,
    pull: PullRequest,
    main: str,
    merged: str,
    is_runtime: Callable[[str], bool] | None,
) -> list[Check]:
    try:
        terms = _terms(app, pull, is_runtime)
        tools = dict(app.tools)
        redact = app.redactor.certain
        merge = await asyncio.to_thread(read_merge, repository, pull.head_sha, main, merged)
    except Exception as error:  # whatever keeps us from looking is a reason not to merge
        return [_crashed(name, error) for name in BUILT_IN]
    callable_tools = {name: tool for name, tool in tools.items() if name not in RUNTIME_TOOLS}
    faults: tuple[Callable[[], Iterable[str]], ...] = (
        lambda: path_faults(merge, terms),
        lambda: evidence_faults(merge, terms),
        lambda: secret_faults(merge, redact),
        lambda: policy_faults(merge, tools),
        lambda: registry_faults(merge, app.redact),
        lambda: sop_faults(merge, callable_tools, app.redact),
        lambda: skill_faults(merge),
        lambda: changed_workflow_faults(merge, app.config.forge.github.owner_id),
    )
    return [
        await asyncio.to_thread(_checked, name, find, app.redact) for name, find in zip(BUILT_IN, faults, strict=True)
    ]


def _terms(app: "Runtime", pull: PullRequest, is_runtime: Callable[[str], bool] | None) -> CheckTerms:
    job_id = pull.job_id
    job = None if job_id is None else load_job(app.db.reader, job_id)
    if job_id is not None and job is None:
        raise ToolError(f"there is no job {job_id}.")
    outputs = () if job is None else job.spec.outputs.evidence_required
    planned = () if job is None or job.plan is None else job.plan.required_evidence
    return CheckTerms(
        job_id=job_id,
        tainted=bool(pull.taint),
        most_files=None if job is None else job.spec.constraints.max_files_changed,
        required=tuple(dict.fromkeys((*outputs, *planned))),
        is_runtime=is_runtime or (lambda path: job_id is not None and is_runtime_file(path, job_id)),
    )


def read_merge(repository: BotRepository, head: str, main: str, merged: str) -> MergeResult:
    """Read what the checks look at: names and modes of everything, contents of what changed, within bounds."""
    changes = tuple(repository.changes(main, merged))
    there, before = repository.entries(merged), repository.entries(main)
    files = [change for change in changes if change.new_mode in _FILES and change.path in there]
    sizes = {path: entry.size for path, entry in there.items()}
    fitting = [change for change in files if sizes[change.path] <= FILE_BYTES]
    if len(changes) > MOST_CHANGES or sum(sizes[change.path] for change in fitting) > CHANGE_BYTES:
        fitting = []
    blobs = repository.blobs(change.new_blob for change in fitting)

    def old(path: str) -> bytes:
        entry = before.get(path)
        return b"" if entry is None or entry.size > FILE_BYTES else repository.blobs([entry.blob])[entry.blob]

    def small(path: str, most: int) -> bytes | None:
        entry = there.get(path)
        return None if entry is None or entry.size > most else repository.blobs([entry.blob])[entry.blob]

    modes = repository.modes(merged)
    touched = {change.path.partition("/")[0] for change in changes} & {"policies", FOLDER_OF_SKILLS}
    below = [path.split("/") for path in modes if path.partition("/")[0] in touched]
    names = [parts[1] for parts in below if parts[0] == "policies" and len(parts) == 2]
    skills = sorted({parts[1] for parts in below if parts[0] == FOLDER_OF_SKILLS and len(parts) > 2})
    return MergeResult(
        changes=changes,
        modes=modes,
        sizes=sizes,
        new={change.path: blobs[change.new_blob] for change in fitting},
        old=old,
        policies={name: small(f"policies/{name}", POLICY_BYTES) for name in names},
        skills={name: small(f"{FOLDER_OF_SKILLS}/{name}/{SKILL_FILE}", SKILL_BYTES) for name in skills},
        of_head={path: entry.blob for path, entry in repository.entries(head).items()},
    )


def _checked(name: str, find: Callable[[], Iterable[str]], redact: Callable[[str], str]) -> Check:
    """One built-in check: passed when nothing is found."""
    began = time.monotonic()
    try:
        found = _bounded(find())
    except Exception as error:  # a check that breaks has not passed
        return _crashed(name, error)
    count = len(found)
    summary = "Nothing was found." if not count else f"{count if count < MOST_DETAILS else f'{count} or more'} found."
    details = tuple(_line(redact(fault)) for fault in found)
    return Check(
        name=name, passed=not count, summary=summary, details=details, seconds=round(time.monotonic() - began, 3)
    )


def _bounded(faults: Iterable[str]) -> list[str]:
    found: list[str] = []
    for fault in faults:
        found.append(fault)
        if len(found) >= MOST_DETAILS:
            break
    return found


def _line(text: str) -> str:
    return shortened(one_line(text), DETAIL_CHARACTERS)


def _crashed(name: str, error: Exception) -> Check:
    reason = str(error) if isinstance(error, CoilclawError) else type(error).__name__
    return Check(name=name, passed=False, summary=f"It could not be carried out: {_line(reason)}")


# The owner's own


async def _own_check(app: "Runtime", repository: BotRepository, merged: str, name: str, wanted: "ForgeCheck") -> Check:
    began = time.monotonic()
    try:
        async with _exported(app.config.trees_dir, repository, merged) as folder:
            result = await run_until_stopped(app, _spec(app, folder, wanted))
    except Exception as error:  # no box, no space: not passed
        return _crashed(name, error)
    if result is None:
        return Check(name=name, passed=False, summary="ESTOP is engaged, so it was ended.")
    passed = result.end == "exited" and result.exit_code == 0
    ended = f"The command ended with {result.exit_code}." if result.end == "exited" else _line(result.reason)
    return Check(
        name=name,
        passed=passed,
        summary=ended,
        details=tuple(_tail(app.redact, result)),
        seconds=round(time.monotonic() - began, 3),
    )


def _tail(redact: Callable[[str], str], result: BoxResult) -> Iterator[str]:
    """The end of what the command wrote. All of it is redacted first: a cut could leave half a secret."""
    written = b"\n".join(part for part in (result.stdout.rstrip(), result.stderr.rstrip()) if part)
    for line in redact(written.decode("utf-8", "replace")).split("\n")[-TAIL_LINES:]:
        if line:
            yield _line(line)


def _spec(app: "Runtime", folder: Path, wanted: "ForgeCheck") -> BoxSpec:
    policy = app.policy()
    hidden = (folder / name for name in hidden_paths(policy.rules))
    forbidden = tuple(sorted(policy.forbidden_commands))
    toolchains, path = lent(app.config.security.toolchains, forbidden)
    return BoxSpec(
        command=wanted.command,
        workspace=str(folder),
        cwd=str(folder),
        hidden=tuple(str(path) for path in hidden if path.exists() and not path.is_symlink()),
        forbidden_binaries=forbidden,
        environment=(("PATH", path), ("LANG", "C.UTF-8")),
        mounts=toolchains,
        limits=BoxLimits(
            wall_seconds=wanted.timeout_seconds,
            cpu_seconds=math.ceil(wanted.timeout_seconds) * (os.cpu_count() or 1),
            write_bytes=app.config.agent.shell_write_bytes,
            output_bytes=OUTPUT_BYTES,
            kept_bytes=OUTPUT_KEPT,
        ),
    )


@asynccontextmanager
async def _exported(trees: Path, repository: BotRepository, tree: str) -> AsyncIterator[Path]:
    """A folder with the files of a tree, as long as it is needed."""
    trees.mkdir(parents=True, exist_ok=True, mode=0o700)
    _remove_left(trees)
    folder = Path(os.path.realpath(trees)) / f"{FOLDER}{os.urandom(8).hex()}"
    folder.mkdir(mode=0o700)
    try:
        await _in_thread(lambda: repository.export(tree, folder))
        yield folder
    finally:
        await _in_thread(lambda: _remove(folder))


async def _in_thread(work: Callable[[], None]) -> None:
    """Do it in a thread, which no cancellation reaches: wait for it, then pass the cancellation on."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise


def _remove(folder: Path) -> None:
    """Remove a folder, whatever a command made of the permissions in it."""
    folder.chmod(0o700)
    for place, names, _ in os.walk(folder):  # a folder is made readable before the walk comes to it
        for inner in (Path(place, name) for name in names):
            if not inner.is_symlink():
                with suppress(OSError):
                    inner.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _remove_left(trees: Path) -> None:
    """Remove what killed processes left."""
    for folder in trees.glob(f"{FOLDER}*"):
        with suppress(OSError):
            if time.time() - folder.lstat().st_mtime > LEFT_SECONDS and not folder.is_symlink():
                _remove(folder)


def checks_hash(checks: Sequence[Check]) -> str:
    """Stands for the names of the checks and how they ended."""
    return sha256_hex(canonical_bytes([[check.name, check.passed] for check in checks]))
