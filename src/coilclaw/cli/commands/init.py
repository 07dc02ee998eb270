"""coilclaw init."""

import os
import shutil
import sys
from pathlib import Path

import click

from coilclaw.cli.open_home import here
from coilclaw.cli.output import counted, print_wrapped, tell
from coilclaw.config import Config, Home, default_toml, load
from coilclaw.packets.errors import CoilclawError, StorageError, ToolError, UsageError

NEXT = """\
Next:
  coilclaw tour       see how it works, in five steps
  coilclaw onboard    choose a model
  coilclaw up         start the panel"""
TEMPLATES = Path(__file__).parent.parent.parent / "templates" / "workspace"


@click.command()
@click.option("--quiet", is_flag=True, help="Only print what was created.")
@click.option("--share-workspace", "share", is_flag=True, help="Use a workspace that another home uses too.")
@click.option(
    "--from", "clone", metavar="CLONE", type=click.Path(exists=True, file_okay=False), help="Make a new bot of a clone."
)
def init(quiet: bool, share: bool, clone: str | None) -> None:
    """Make a home (config, keys, database) and the workspace repository. Safe to repeat: nothing is overwritten.

    With --from the workspace is a copy of a CLONE of another bot's repository, a folder on this machine: its files and
    its history. Home, keys and ledger are new.
    """
    home = here()
    try:
        made = make_home(home)
        config = load(home, os.environ).config
        copied = [] if clone is None else _make_copy(home, config, Path(clone))
        share = share or _agrees_to_share(home, config.workspace_dir)
        made += make_parts(home, config)
        made += make_workspace(home, config.workspace_dir, share=share)
        copied += [] if clone is None else _label_copy(home, config)
    except OSError as error:
        raise StorageError(
            f"{error.filename or home.root} cannot be written ({error.strerror}).",
            remedy="Choose another home with COILCLAW_HOME, or fix the owner, the mode or the free space.",
        ) from error
    for line in made:
        tell(f"created {line}")
    for line in copied:
        tell(line)
    troubles = find_troubles(home, config)
    for line in troubles:
        tell(f"warning: {line}", err=True)
    if not made and not quiet and not troubles:
        tell(f"Everything is in place: {home.root}, {config.workspace_dir}")
    if not quiet and not troubles:
        tell(NEXT)


def _make_copy(home: Home, config: Config, clone: Path) -> list[str]:
    """Make the workspace a copy of a clone; in words, what came along."""
    from coilclaw.packets.ids import utc_now
    from coilclaw.runtime.copied_bot import copy_bot

    if config.memory.path.exists():
        raise UsageError(
            f"--from makes a new bot, but there is one in {home.root}.", remedy="Choose a new home with COILCLAW_HOME."
        )
    copied = copy_bot(clone, config.workspace_dir, utc_now)
    came = f"{counted(copied.files, 'file')} and {counted(copied.commits, 'commit')} up to {copied.commit[:12]}"
    lines = [f"copied {came} from {clone}"]
    if copied.records:
        lines.append(f"left in the history: {counted(copied.records, 'record')} of the other bot (jobs/, audit/)")
    if copied.steering:
        lines.append(f"In force from now on, so read it before you start a worker: {', '.join(copied.steering)}")
    return [*lines, "Settings, keys, secrets, conversations and receipts did not come along."]


def _label_copy(home: Home, config: Config) -> list[str]:
    """Label what came along, as far as another bot's job may have written it."""
    from coilclaw.packets.ids import utc_now
    from coilclaw.runtime.copied_bot import label_copied
    from coilclaw.store.database import Database

    db = Database(config.memory.path, home.locks_dir)
    try:
        count = label_copied(db, config.workspace_dir, utc_now, TEMPLATES)
    finally:
        db.close()
    if not count:
        return []
    how = "`coilclaw labels forget PATH` vouches for a file or folder."
    return [f"{counted(count, 'file')} count as untrusted, because labels do not travel with a clone: {how}"]


def _agrees_to_share(home: Home, workspace: Path) -> bool:
    """Ask at a terminal whether to share a workspace; elsewhere `make_workspace` refuses."""
    from coilclaw.sandbox.repository import other_homes

    others = other_homes(workspace, home.root)
    if not others or not sys.stdin.isatty():
        return False
    print_wrapped(f"The workspace {workspace} belongs to another home: {', '.join(others)}.")
    print_wrapped("Both agents would read and write these files and obey the same SYSTEM.md, policies and schedules.")
    return click.confirm("Share it?", default=False)


def make_home(home: Home) -> list[str]:
    """The home folder and its configuration file."""
    made: list[str] = []
    if home.root.exists() and not home.root.is_dir():
        raise UsageError(f"{home.root} is not a directory.", remedy="Move it aside or set COILCLAW_HOME.")
    if not home.root.is_dir():
        home.root.mkdir(parents=True, mode=0o700)
        made.append(str(home.root))
    home.root.chmod(0o700)
    for folder in (home.keys_dir, home.plugins_dir, home.logs_dir, home.locks_dir):
        folder.mkdir(mode=0o700, exist_ok=True)
    if not home.config_file.exists() and not home.config_file.is_symlink():
        _write_private(home.config_file, default_toml(home))
        made.append(str(home.config_file))
    return made


def make_parts(home: Home, config: Config) -> list[str]:
    """The database and the signing key."""
    from coilclaw.ledger.heads import SigningKey, count_heads
    from coilclaw.packets.ids import utc_now
    from coilclaw.store.database import Database
    from coilclaw.store.threads import ensure_owner

    made: list[str] = []
    if not config.memory.path.exists():
        made.append(str(config.memory.path))
    db = Database(config.memory.path, home.locks_dir)
    try:
        db.write_now(lambda tx: ensure_owner(tx, utc_now))
        sealed = count_heads(db.reader)
    finally:
        db.close()
    config.memory.path.chmod(0o600)
    key = SigningKey(home.keys_dir)
    if not key.private_file.exists():
        if sealed:
            raise StorageError(
                f"the ledger key {key.private_file} is gone, but {sealed} heads were signed with it.",
                remedy="Restore the keys folder from a backup; see SECURITY.md, 'A broken ledger'.",
            )
        key.create()
        made.append(str(key.private_file))
    return made


def find_troubles(home: Home, config: Config) -> list[str]:
    """What keeps a home that is all there from working: a stop, or a database that lacks what was signed."""
    from coilclaw.cli.commands.estop import way_out
    from coilclaw.gate.estop import Estop
    from coilclaw.ledger.heads import SigningKey
    from coilclaw.ledger.older import find_older
    from coilclaw.runtime.older_copy import REMEDY, in_words
    from coilclaw.store.passkeys import any_passkey
    from coilclaw.store.read_connection import reading_apart

    found: list[str] = []
    passkey: bool | None = None
    try:
        with reading_apart(config.memory.path) as db:
            passkey = any_passkey(db)
            older = find_older(db, SigningKey(home.keys_dir), config.receipts.path)
        found += [] if older is None else [f"{in_words(older)} {REMEDY}"]
    except CoilclawError as error:
        found.append(f"{error} Run `coilclaw doctor`.")
    if Estop(home.estop_file).engaged():
        found.append(f"ESTOP is engaged: no tool runs until it is cleared. {way_out(passkey)}")
    return found


def make_workspace(home: Home, workspace: Path, *, share: bool = False) -> list[str]:
    """The workspace: a git repository with what the templates have and it has not.

    One that another home works in is refused, unless the owner wants to share it.
    """
    from coilclaw.sandbox.repository import other_homes, settle

    others = [] if share else other_homes(workspace, home.root)
    if others:
        raise UsageError(
            f"the workspace {workspace} belongs to another home ({', '.join(others)}).",
            remedy=f"Set workspace_dir in {home.config_file} to a folder of its own, or run"
            " `coilclaw init --share-workspace` to let both work in it.",
        )
    copied: list[str] = []
    if workspace.is_symlink() or (workspace.exists() and not workspace.is_dir()):
        raise UsageError(f"the workspace {workspace} is not a regular directory.", remedy="Set workspace_dir to one.")
    fresh = not workspace.exists()
    if fresh:
        workspace.parent.mkdir(parents=True, exist_ok=True)
        workspace.mkdir(mode=0o700)  # what governs the agent lies in here, and what it was told
    for source in sorted(TEMPLATES.rglob("*")):
        if source.is_dir() or "__pycache__" in source.parts:
            continue
        relative = source.relative_to(TEMPLATES)
        target = workspace / (".gitignore" if relative.name == "gitignore" else relative)
        if not target.exists() and (fresh or not _taken_out(workspace, target)):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            copied.append(str(target.relative_to(workspace)))
    made = [f"{workspace} ({counted(len(copied), 'file')})"] if copied else []
    made += _make_repository(workspace, copied)
    settle(workspace, home.root)
    if not home.workspace_link.is_symlink() and not home.workspace_link.exists():
        home.workspace_link.symlink_to(workspace)
    return made


def _taken_out(workspace: Path, target: Path) -> bool:
    """Whether the owner removed this template on purpose: the folder it belongs to is there without it."""
    return (workspace / ".git").exists() and target.parent.exists()


def _make_repository(workspace: Path, files: list[str]) -> list[str]:
    """Make it a repository and commit what we brought; git is never let loose on what was there before."""
    from coilclaw.sandbox.git import have_git, run_git

    if (workspace / ".git").exists():
        return []
    if not have_git():
        tell("warning: git is not installed, so the workspace is not a git repository yet.", err=True)
        return []
    try:
        run_git(workspace, "init", "--quiet")
        run_git(workspace, "add", "--", *files) if files else None
        run_git(workspace, "commit", "--quiet", "--allow-empty", "-m", "Workspace as created by CoilClaw")
    except ToolError as error:
        tell(f"warning: the workspace could not be made a git repository: {error}", err=True)
        return []
    return [f"{workspace}/.git"]


def _write_private(path: Path, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
