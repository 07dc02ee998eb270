"""The check-up: every part the agent relies on, probed by behaviour, with a remedy for each fault."""

import sqlite3
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from coilclaw.packets.box import Probe
from coilclaw.packets.errors import CoilclawError
from coilclaw.store.meta import quick_check, try_writing
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime


Reader: TypeAlias = Callable[[], Tx]
"""Opens the database, or says why it cannot."""

_REMEDY = "See `coilclaw init`."


def examine(app: "Runtime", reader: Reader, *, short: bool) -> list[Probe]:
    """Every probe, in the order a person would check. It is slow: use a separate connection."""
    return [_python(), _home(app), *_database(app, reader), *_ledger(app), _workspace(app), _undo(app),
            *_inside(app, short=short), *_toolchains(app), *_features(app, reader, short=short),
            *_provider(app, reader), _estop(app, reader), *_boxes(app, short=short)]  # fmt: skip


def _python() -> Probe:
    found = ".".join(str(part) for part in sys.version_info[:3])
    return Probe(name="python", state="ok", detail=f"{found}, SQLite {sqlite3.sqlite_version}")


def _home(app: "Runtime") -> Probe:
    mode = app.home.root.stat().st_mode & 0o777
    if mode & 0o077:
        return Probe(
            name="home",
            state="warn",
            detail=f"{app.home.root} is accessible to other users (mode {mode:o})",
            remedy=f"chmod 700 {app.home.root}",
        )
    if app.live.fault:
        detail = f"config.toml is not in force as it is now: {app.live.fault}"
        return Probe(name="home", state="warn", detail=detail, remedy="Fix it; the last valid one stays in force.")
    if not app.home.config_file.exists():
        detail = f"{app.home.config_file} does not exist: every setting has its default"
        return Probe(
            name="home", state="warn", detail=detail, remedy="Restore yours; `coilclaw init` writes a new one."
        )
    return Probe(name="home", state="ok", detail=f"{app.home.root}, private")


def _database(app: "Runtime", reader: Reader) -> list[Probe]:
    try:
        answer = quick_check(reader())
        app.db.write_now(try_writing)
    except CoilclawError as error:
        return [Probe(name="database", state="fail", detail=error.message, remedy=error.remedy or _REMEDY)]
    except sqlite3.Error as error:
        return [Probe(name="database", state="fail", detail=str(error), remedy=_REMEDY)]
    lost = _lost(app, reader())
    if lost:
        return [Probe(name="database", state="fail", detail=lost, remedy="See SECURITY.md, 'An older database'.")]
    state = "ok" if answer == "ok" else "fail"
    detail = f"{app.config.memory.path}, intact and writable" if state == "ok" else answer
    return [Probe(name="database", state=state, detail=detail, remedy="Restore it from a backup.")]


def _lost(app: "Runtime", db: Tx) -> str:
    """What the database lacks that was signed or logged; the next probe reports a ledger that cannot be read."""
    from coilclaw.ledger.older import find_older
    from coilclaw.runtime.older_copy import in_words

    try:
        older = find_older(db, app.signing_key, app.config.receipts.path)
    except (CoilclawError, sqlite3.Error):
        return ""
    return "" if older is None else in_words(older).rstrip(".")


def _ledger(app: "Runtime") -> list[Probe]:
    from coilclaw.ledger.live_verify import verify_live

    try:
        if app.signing_key.private_file.exists():
            app.signing_key.row_key()
    except CoilclawError as error:
        detail = f"{error.message.rstrip('.')}: nothing runs"
        return [Probe(name="ledger", state="fail", detail=detail, remedy=error.remedy)]
    try:
        report = verify_live(app.config.memory.path, app.config.receipts.path, app.signing_key)
    except (CoilclawError, sqlite3.Error) as error:
        return [Probe(name="ledger", state="fail", detail=str(error), remedy="See SECURITY.md, 'A broken ledger'.")]
    if report.broken is not None:
        place = f" at receipt {report.broken.receipt}" if report.broken.receipt else f" ({report.broken.detail})"
        detail = f"broken{place}: {report.broken.kind}"
        return [Probe(name="ledger", state="fail", detail=detail, remedy="See SECURITY.md, 'A broken ledger'.")]
    if not app.signing_key.private_file.exists():
        detail = f"the key {app.signing_key.private_file} is missing: the chain is intact, but nothing more is signed"
        return [Probe(name="ledger", state="fail", detail=detail, remedy="Restore the keys folder from a backup.")]
    receipts = f"{report.receipts} receipt{'' if report.receipts == 1 else 's'}"
    heads = f"{report.heads} signed head{'' if report.heads == 1 else 's'}"
    return [Probe(name="ledger", state="ok", detail=f"{receipts}, {heads}, chain intact")]


def _workspace(app: "Runtime") -> Probe:
    from coilclaw.sandbox.git import have_git

    try:
        path = app.workspace
    except CoilclawError as error:
        return Probe(name="workspace", state="fail", detail=error.message, remedy=error.remedy)
    if not path.is_dir():  # it was there when we started
        return Probe(name="workspace", state="fail", detail=f"{path} is not there", remedy="Put it back.")
    broken = app.policy().broken
    if broken:
        return Probe(name="policy files", state="fail", detail=broken, remedy="Only reads run until they are fixed.")
    if not have_git():
        return Probe(name="workspace", state="warn", detail=f"{path}, but git is not installed", remedy="Install git.")
    if not (path / ".git").exists():
        return Probe(
            name="workspace", state="warn", detail=f"{path} is not a git repository", remedy="Run `coilclaw init`."
        )
    return _shared(path) or Probe(name="workspace", state="ok", detail=f"{path}, a git repository, private")


def _undo(app: "Runtime") -> Probe:
    """What can be undone, and whether the next command could be."""
    try:
        snapshots = app.root.snapshots
        kept = snapshots.recent(1000)
    except (CoilclawError, OSError) as error:
        return Probe(name="undo", state="warn", detail=str(error), remedy="See `coilclaw undo --list`.")
    if fault := snapshots.fault(None):
        remedy = (
            "Move files that cannot be kept out of the workspace, or free some space; until then every command asks."
        )
        return Probe(name="undo", state="warn", detail=f"commands cannot be undone: {fault}", remedy=remedy)
    if not kept:
        return Probe(name="undo", state="ok", detail="nothing has been written yet")
    room = f"{snapshots.bytes() / (1 << 20):.1f} MB"
    return Probe(name="undo", state="ok", detail=f"snapshots since {kept[-1].time[:10]}: {len(kept)}, {room}")


def _inside(app: "Runtime", *, short: bool) -> list[Probe]:
    """What in the workspace reaches beyond it, and who owns the workspace."""
    from coilclaw.runtime.workspace_probes import hard_links, quarantined, repository

    try:
        workspace = app.workspace
    except CoilclawError:
        return []  # the previous probe reports it
    probes = [*repository(app), *quarantined(app)]
    return probes if short else [*probes, hard_links(workspace)]


def _toolchains(app: "Runtime") -> list[Probe]:
    """Whether the toolchain folders that the owner lends to boxes exist."""
    from coilclaw.sandbox.toolchains import lent

    folders = [str(each) for each in app.config.security.toolchains]
    lacking = _lacking(app)
    if not folders:
        return lacking
    try:
        mounts, _ = lent(folders, tuple(app.config.security.forbidden_commands))
    except CoilclawError as error:
        return [Probe(name="toolchains", state="fail", detail=error.message, remedy=error.remedy)]
    absent = [each for each in folders if each not in {mount.source for mount in mounts}]
    if absent:
        remedy = "Correct security.toolchains: boxes do without them until then."
        return [Probe(name="toolchains", state="warn", detail=f"not there: {', '.join(absent)}", remedy=remedy)]
    return [Probe(name="toolchains", state="ok", detail=f"lent to boxes: {', '.join(folders)}"), *lacking]


def _lacking(app: "Runtime") -> list[Probe]:
    """Vouched projects that use programs of the owner's which boxes do not see."""
    from coilclaw.runtime.roots import lacking_in
    from coilclaw.sandbox.missing_programs import to_lend
    from coilclaw.store.projects import open_projects

    try:
        projects = open_projects(app.db.reader)
    except (CoilclawError, sqlite3.Error):
        return []  # the database's probe reports it
    return [
        Probe(name="toolchains", state="warn", detail=f"project {project.name}: {each.what}",
              remedy=f"Lend it, read-only: `{to_lend(each.folder)}`.")
        for project in projects if project.vouched for each in lacking_in(app, project.path)
    ]  # fmt: skip


def _features(app: "Runtime", reader: Reader, *, short: bool) -> list[Probe]:
    """The probes of features; a broken database or workspace has been reported already."""
    try:
        reader()
        _ = app.workspace
    except (CoilclawError, sqlite3.Error):
        return []
    return app.extensions.probes(app, reader, short)


def _shared(workspace: Path) -> Probe | None:
    """Whether other users of this machine may read the workspace, or write what governs the agent."""
    mode = workspace.stat().st_mode
    if not mode & 0o077:
        return None
    governing = (workspace, *(workspace / name for name in ("SYSTEM.md", "policies", "cron", "skills", "sops")))
    inside = (file for place in governing[1:] if place.is_dir() for file in place.rglob("*"))
    loose = next((each for each in (*governing, *inside) if _others_may_write(each)), None)
    remedy = f"Run `chmod -R go-rwx {workspace}`."
    if loose is not None:
        detail = f"{loose} can be written by other users, and it governs the agent"
        return Probe(name="workspace", state="fail", detail=detail, remedy=remedy)
    return Probe(name="workspace", state="warn", detail=f"{workspace} can be read by other users", remedy=remedy)


def _others_may_write(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return bool(found.st_mode & 0o022) and not stat.S_ISLNK(found.st_mode)


def _provider(app: "Runtime", reader: Reader) -> list[Probe]:
    from coilclaw.config import ServerModel

    name = app.config.default_provider
    model = app.config.providers.models[name]
    probes = [Probe(name="provider", state="ok", detail=f"{name} ({model.kind})")]
    for each, config in app.config.providers.models.items():
        key = config.api_key_env if isinstance(config, ServerModel) else ""
        if key and not _has_key(app, reader, key):
            probes.append(
                Probe(name=f"provider {each}", state="warn", detail=f"{key} is not set", remedy=f"export {key}=…")
            )
    return probes


def _has_key(app: "Runtime", reader: Reader, name: str) -> bool:
    try:
        return app.keyring.holds(name, reader())
    except (CoilclawError, sqlite3.Error):
        return bool(app.environ.get(name))


def _clearing(app: "Runtime", reader: Reader) -> str:
    try:
        passkey = app.owner_proof.registered(reader())
    except (CoilclawError, sqlite3.Error):
        passkey = False
    return "Clear it in the panel, with your passkey." if passkey else "Run `coilclaw estop --clear`."


def _estop(app: "Runtime", reader: Reader) -> Probe:
    if app.estop.engaged():
        return Probe(name="estop", state="warn", detail="engaged", remedy=_clearing(app, reader))
    return Probe(name="estop", state="ok", detail="not engaged")


def _boxes(app: "Runtime", *, short: bool) -> list[Probe]:
    from coilclaw.sandbox.box import probe_tiers

    if short:
        try:
            return [Probe(name="box", state="ok", detail=f"tier {app.open_box().tier}")]
        except CoilclawError as error:
            return [Probe(name="box", state="fail", detail=error.message, remedy=error.remedy)]
    return probe_tiers(hide=(str(app.home.root),))
