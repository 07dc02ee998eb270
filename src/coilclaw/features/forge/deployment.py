"""What was merged is put in place, and taken back if the workspace does not load with it."""

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from coilclaw.features.forge.job_file import ledger_head
from coilclaw.features.forge.paths import is_runtime_file
from coilclaw.features.schedules.registry import REGISTRY, REGISTRY_BYTES, RegistryBroken, read_registry
from coilclaw.features.sops.sop_files import SopFiles
from coilclaw.gate.labels import Looked
from coilclaw.ledger.audit import Wanted, events_after
from coilclaw.packets.canonical import as_object
from coilclaw.packets.errors import UsageError
from coilclaw.packets.forge import MAIN, PullRequest
from coilclaw.packets.text import one_line
from coilclaw.sandbox.bot_repository import BOT, BotRepository, Written
from coilclaw.sandbox.files import read_existing

if TYPE_CHECKING:
    from coilclaw.features.forge.forge import LocalForge
    from coilclaw.runtime.runtime import Runtime

SKILL_BYTES = 256 << 10
TAKES_BACK = "Takes-Back"
"""The trailer of the commit that undoes a merge; it names that merge."""
SEARCHED = 1000
NAMED_EDITS = 5
AT_ONCE = 200
"""Files that are read by one git and held in memory together."""


async def put_in_place(app: "Runtime", forge: "LocalForge", pull: PullRequest) -> str:
    """Deploy a merged pull request; if what it brings does not load, take it back. Why that was, or empty.

    It may be called again after a kill at any instant: what was taken back stays so.
    """
    parent = pull.checked_sha if app.config.forge.kind == "local" else ""  # elsewhere it may have another parent
    main, brought = await asyncio.to_thread(forge.bot.deploy, parent, pull.merged_sha)
    app.reached("pr_deployed")
    fault = "" if main == pull.merged_sha else await asyncio.to_thread(_taken_back, forge, pull)
    if not fault:
        paths = await asyncio.to_thread(_brought, forge.repository, pull) if brought is None else brought
        faults = list(load_faults(app, paths))
        fault = await asyncio.to_thread(_take_back, app, forge, pull, "; ".join(faults[:5])) if faults else ""
    await asyncio.to_thread(forge.deployed, pull, fault)
    return fault


def kept_edits(app: "Runtime", pull: PullRequest) -> str:
    """Which files kept the owner's edit when a merge was put in place, in words; empty if none did."""
    events = events_after(app.db.reader, Wanted(entity_id=pull.merged_sha, event_type="deploy_kept_edits"), 0, 1)
    if not events:
        return ""
    about = as_object(events[0].payload)
    paths, count = about.get("paths"), about.get("count")
    named = ", ".join(one_line(str(path)) for path in (paths if isinstance(paths, Sequence) else ())[:NAMED_EDITS])
    files = "1 file keeps" if count == 1 else f"{count} files keep"
    return f"{files} your own edit instead: {named}"


def files_to_label(app: "Runtime", repository: BotRepository, pull: PullRequest) -> list[Looked]:
    """The files that a pull request adds or changes, and their names, as labels know them."""
    changes = [each for each in repository.changes(pull.base_sha, pull.head_sha) if each.new_blob]
    labels = app.root.labels
    found = [labels.names([each.path]) for each in changes]
    for start in range(0, len(changes), AT_ONCE):
        some = changes[start : start + AT_ONCE]
        blobs = repository.blobs(each.new_blob for each in some)
        found += [labels.expected(each.path, blobs[each.new_blob]) for each in some]
    return found


def load_faults(app: "Runtime", paths: Iterable[str]) -> Iterator[str]:
    """What the runtime cannot read in the workspace: its policies, and of these paths schedules, procedures, skills."""
    if broken := app.policy().broken:
        yield broken
    for path in paths:
        if not os.path.lexists(app.workspace / path):
            continue  # it was removed
        match path.split("/"):
            case ["cron", "jobs.json"]:
                yield from _registry_faults(app)
            case ["sops", name, "SOP.toml"]:
                try:
                    yield from (f"{path}: {fault}" for fault in SopFiles(app).read(name).read.faults)
                except UsageError as error:
                    yield f"{path}: {error.message}"
            case ["skills", _, "SKILL.md"]:
                data = read_existing(app.workspace, path, SKILL_BYTES)
                if data is None or data.decode("utf-8", "replace").encode() != data:
                    yield f"{path}: it is not a text of at most {SKILL_BYTES >> 10} KiB"
            case _:
                pass


def _registry_faults(app: "Runtime") -> Iterator[str]:
    data = read_existing(app.workspace, REGISTRY, REGISTRY_BYTES)
    if data is None:
        yield f"{REGISTRY}: it is not a regular file of at most {REGISTRY_BYTES} bytes"
        return
    try:
        read_registry(data, redact=app.redact)
    except RegistryBroken as error:
        yield from (f"{REGISTRY}: {fault}" for fault in error.faults)


def undoing(repository: BotRepository, pull: PullRequest) -> list[Written]:
    """What takes a merge back, on top of it. What the runtime wrote about the job stays on record."""
    before = repository.log(pull.merged_sha, 1)[0].parents[0]
    own = pull.job_id
    changes = [
        each
        for each in repository.changes(before, pull.merged_sha)
        if own is None or not is_runtime_file(each.path, own)
    ]
    blobs = repository.blobs(each.old_blob for each in changes if each.old_blob)
    return [
        Written(each.path, blobs[each.old_blob], each.old_mode) if each.old_blob else Written(each.path, None)
        for each in changes
    ]


def _brought(repository: BotRepository, pull: PullRequest) -> Sequence[str]:
    return [each.path for each in repository.changes(pull.base_sha, pull.head_sha)]


def _taken_back(forge: "LocalForge", pull: PullRequest) -> str:
    """Why it was taken back, where a process was killed right after that."""
    for commit in forge.repository.log(MAIN, SEARCHED):
        if commit.sha == pull.merged_sha:
            break
        if f"{TAKES_BACK}: {pull.merged_sha}" in commit.body.splitlines():
            return _words(pull, commit.body.strip().splitlines()[0], done=True)
    return ""


def _take_back(app: "Runtime", forge: "LocalForge", pull: PullRequest, why: str) -> str:
    """Revert a merge on main and in the workspace, whatever came on top of it, unless that conflicts."""
    repository, bot = forge.repository, forge.bot
    when = int(app.clock().timestamp())
    why = one_line(app.redact(why))
    trailers = (f"{TAKES_BACK}: {pull.merged_sha}", f"Ledger-Head: {ledger_head(app.db.reader)}")
    words = "\n".join((f"Revert #{pull.number}: {pull.title}", "", why, "", *trailers))
    with bot.alone():
        main = bot.main()
        commit = repository.commit(pull.merged_sha, undoing(repository, pull), words, BOT, when)
        if main != pull.merged_sha:
            merged = repository.merge(main, commit)
            if merged.conflicts:
                return _words(pull, why, done=False)
            commit = repository.commit_tree(merged.tree, [main, commit], words, BOT, when)
        repository.move(MAIN, commit, main)
        app.reached("pr_taken_back")
        bot.settle_alone(f"after #{pull.number} was taken back")
    return _words(pull, why, done=True)


def _words(pull: PullRequest, why: str, *, done: bool) -> str:
    what = "and taken back" if done else "and could not be taken back, because main conflicts"
    return f"#{pull.number} was merged {what}: {why}"
