"""What the doctor looks at: the bot's repository, its merge mode, trees, CODEOWNERS, and what auditors read."""

import asyncio
import re
import time
from datetime import timedelta
from typing import TYPE_CHECKING

from coilclaw.features.forge.actions.workflow_check import workflow_probe
from coilclaw.features.forge.codeowners import OWNERS, covers
from coilclaw.features.forge.forge import EXPORT, LocalForge
from coilclaw.features.forge.store import pull_on, pulls_before
from coilclaw.ledger.audit_days import audit_days, day_path
from coilclaw.packets.box import Probe
from coilclaw.packets.errors import CoilclawError
from coilclaw.packets.forge import LEDGER
from coilclaw.packets.ids import stamp
from coilclaw.store.job_trees import open_trees

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.store.tx import Tx

LOCKED_SECONDS = 600.0
"""No git of ours or the owner's holds a lock that long."""
LATE_DAYS = 3
"""So long an export may wait for its merge before the doctor mentions it."""
_DAY = re.compile(r"audit/([0-9]{4})/([0-9]{2})/([0-9]{2})\.jsonl")


def forge_probes(app: "Runtime", db: "Tx", *, ask: bool = False) -> list[Probe]:
    """The probes of pull requests; with `ask` GitHub is asked about the bot's token. Blocking."""
    if not app.config.forge.enabled:
        return [Probe(name="pull requests", state="ok", detail="off: jobs write the workspace and ask for each write")]
    try:
        forge = LocalForge(app)
        if fault := forge.bot.fault():
            return [Probe(name="pull requests", state="fail", detail="they cannot be made", remedy=fault)]
        found = [_pulls(forge, db), *_locks(app), _trees(app, db), _owners(forge)]
        found += [workflow_probe(forge, app.config.forge.github.owner_id), _audit(forge), _export(app, forge, db)]
        return (
            found
            if app.config.forge.kind == "local"
            else [*found, _github(db), *(_account(app) if ask and not app.estop.engaged() else ())]
        )
    except (CoilclawError, OSError) as error:
        return [Probe(name="pull requests", state="fail", detail=str(error), remedy="Run `git fsck` in the workspace.")]


def _pulls(forge: LocalForge, db: "Tx") -> Probe:
    mode, count = forge.mode(), len(pulls_before(db, ("OPEN",), None, 10_000))
    detail = f"{count} open, merge mode {mode}"
    remedy = "End it with `coilclaw bot mode strict`."
    return Probe(name="pull requests", state="warn" if mode == "yolo" else "ok", detail=detail, remedy=remedy)


def _locks(app: "Runtime") -> list[Probe]:
    """Locks that a killed git left, which keep every other one from working."""
    places = (app.workspace / ".git" / name for name in ("index.lock", "refs/heads/main.lock"))
    now = time.time()
    old = [str(each) for each in places if each.exists() and now - each.lstat().st_mtime > LOCKED_SECONDS]
    if not old:
        return []
    remedy = f"If no git is at work in the workspace, remove {' and '.join(old)}."
    return [Probe(name="git locks", state="warn", detail="a git that was killed left a lock", remedy=remedy)]


def _trees(app: "Runtime", db: "Tx") -> Probe:
    folder = app.config.trees_dir
    known = {tree.job_id for tree in open_trees(db)}
    there = {each.name for each in folder.iterdir()} if folder.is_dir() else set[str]()
    left = sorted(name for name in there - known if not name.startswith("."))
    if left:
        detail = f"{len(left)} in {folder} belong to no job ({', '.join(left[:3])})"
        return Probe(name="trees", state="warn", detail=detail, remedy="Remove them, if nothing in them is needed.")
    return Probe(name="trees", state="ok", detail=f"{len(known)} that jobs work in")


def _owners(forge: LocalForge) -> Probe:
    data = forge.repository.read(forge.bot.main(), OWNERS)
    if data is None:
        return Probe(name="CODEOWNERS", state="ok", detail="not there; `coilclaw bot setup` writes it for a forge")
    if covers(data.decode("utf-8", "replace")):
        return Probe(name="CODEOWNERS", state="ok", detail="names a reviewer for all files that control the agent")
    remedy = "Run `coilclaw bot setup`."
    return Probe(
        name="CODEOWNERS", state="warn", detail=f"{OWNERS} leaves out files that control the agent", remedy=remedy
    )


def _audit(forge: LocalForge) -> Probe:
    """What an auditor finds in a clone: signed heads, and the events of complete days."""
    heads = "signed heads on the branch ledger" if forge.repository.resolve(LEDGER) else "no signed heads yet"
    found = (_DAY.fullmatch(path) for path in forge.repository.entries(forge.bot.main()))
    days = sorted("-".join(day.groups()) for day in found if day is not None)
    until = f"audit events through {days[-1]} on main" if days else "no day of audit events on main yet"
    return Probe(name="audit in git", state="ok", detail=f"{heads}, {until}")


def _export(app: "Runtime", forge: LocalForge, db: "Tx") -> Probe:
    """Whether audit events reach main: what does not stand there is never pruned."""
    late = stamp(app.clock() - timedelta(days=LATE_DAYS))[:10]
    entries = forge.repository.entries(forge.bot.main())
    missing = [each.day for each in audit_days(db, late) if day_path(each.day) not in entries]
    if not missing:
        return Probe(name="audit export", state="ok", detail="complete days stand on main, and may be pruned")
    waiting = pull_on(db, EXPORT)
    detail = f"audit events since {missing[0]} are not on main, so they are kept in the database for ever"
    if waiting is None:
        remedy = "The worker exports them daily as a pull request: run `coilclaw worker` or `coilclaw up`."
    else:
        remedy = f"They are in #{waiting.number}: merge it with `coilclaw pr merge {waiting.number}`."
    return Probe(name="audit export", state="warn", detail=detail, remedy=remedy)


def _github(db: "Tx") -> Probe:
    """How the last look at GitHub went."""
    from coilclaw.features.forge.github.store import github_state

    state = github_state(db)
    if state.fault or not state.synced_at:
        detail = state.fault or "never looked at"
        return Probe(
            name="GitHub", state="warn", detail=detail, remedy="Run `coilclaw bot connect`: it tries each step."
        )
    return Probe(name="GitHub", state="ok", detail=f"in order at {state.synced_at}")


def _account(app: "Runtime") -> list[Probe]:
    from coilclaw.features.forge.github.connection import account_probe

    return [asyncio.run(account_probe(app))]
