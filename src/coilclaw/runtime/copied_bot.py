"""A new bot made of a copy: the files and the history of a clone, with a home, keys and a ledger of its own.

The clone may be anybody's work. Its records (`audit/`, `jobs/`) stay in the history: they tell of another ledger. What
a job may have written there counts as untrusted, because the labels of files do not travel with a clone.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from coilclaw.gate.labels import FileLabels
from coilclaw.gate.paths import classify
from coilclaw.packets.action import untrusted
from coilclaw.packets.errors import UsageError
from coilclaw.packets.forge import COPIED, MAIN
from coilclaw.packets.ids import Clock
from coilclaw.sandbox.bot_repository import BotRepository
from coilclaw.sandbox.clones import copy_history
from coilclaw.sandbox.fast_import import OWNER, Written
from coilclaw.store.database import Database

OLD_LEDGER = "refs/heads/copied/ledger"
"""Where the other bot's signed heads are kept; `ledger` is the new bot's own."""
RECORDS = ("audit", "jobs")
LABEL = untrusted("copy")
STEERS = ("never", "owner", "guarded")
"""Classes that no job with untrusted content may write: see docs/policy.md."""
STEERING = ("SYSTEM.md", "policies", "skills", "sops", "cron", "memory/PREFERENCES.md")
"""What governs the new bot from its first minute on."""


class CopiedBot(msgspec.Struct, frozen=True, kw_only=True):
    """What was copied."""

    commit: str
    """The commit that was copied."""
    commits: int
    files: int
    records: int
    """Files of the other bot's records, which stay in the history."""
    steering: tuple[str, ...]
    """What steers the new bot, with the number of files of each."""


def copy_bot(clone: Path, workspace: Path, clock: Clock) -> CopiedBot:
    """Make a new workspace from a clone. It appears as a whole; when anything fails, nothing is left behind."""
    if workspace.is_symlink() or workspace.exists():
        raise UsageError(
            f"there is a workspace already: {workspace}.",
            remedy="Choose a new home with COILCLAW_HOME, or set workspace_dir to a folder that does not exist yet.",
        )
    workspace.parent.mkdir(parents=True, exist_ok=True)
    fresh = workspace.with_name(f".{workspace.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        fresh.mkdir(mode=0o700)
        copied = _fill(clone, fresh, int(clock().timestamp()))
        fresh.rename(workspace)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return copied


def _fill(clone: Path, fresh: Path, when: int) -> CopiedBot:
    repository = copy_history(clone, fresh, OLD_LEDGER)
    came = repository.resolve(MAIN)
    files = repository.entries(came)
    records = {path for path in files if path.split("/")[0] in RECORDS and path.count("/") > 1}  # READMEs stay
    message = f"A new bot of a copy\n\nIt has keys and a ledger of its own.\n\n{COPIED}: {came}"
    main = repository.commit(came, [Written(path, None) for path in sorted(records)], message, OWNER, when)
    repository.move(MAIN, main, came)
    repository.export(main, fresh)
    repository.refresh_index(main)
    kept = [path for path in files if path not in records]
    return CopiedBot(
        commit=came,
        commits=len(repository.log(came, 1_000_000)),
        files=len(kept),
        records=len(records),
        steering=tuple(_counted(kept)),
    )


def _counted(paths: list[str]) -> Iterator[str]:
    for name in STEERING:
        count = sum(path == name or path.startswith(f"{name}/") for path in paths)
        if count:
            yield name if count == 1 and "." in name else f"{name}/ ({count})"


def label_copied(db: Database, workspace: Path, clock: Clock, known: Path) -> int:
    """Label what a job may have written from untrusted content: all but what steers, and files `known` to be ours."""
    repository = BotRepository(workspace)
    paths = [path for path in repository.entries(repository.resolve(MAIN)) if classify(path) not in STEERS]
    doubtful = [path for path in paths if not _same(workspace / path, known / path)]
    labels = FileLabels(db, workspace, clock)
    seen, names = labels.look(doubtful), labels.names(doubtful)
    for looked in (seen, names):
        db.write_now(lambda tx, looked=looked: labels.mark(tx, looked, (LABEL,)))
    return len(doubtful)


def _same(file: Path, other: Path) -> bool:
    return other.is_file() and file.read_bytes() == other.read_bytes()
