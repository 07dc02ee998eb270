"""A new repository for the agent: CoilClaw's own source, or a folder of the owner's, and the templates over it."""

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import coilclaw
from coilclaw.features.evolve.places import EvolvePlaces, places_of
from coilclaw.features.evolve.watcher.git import RecordError
from coilclaw.features.evolve.watcher.record import Record
from coilclaw.packets.errors import UsageError
from coilclaw.sandbox.git import run_git

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

_HERE = Path(__file__).parent
_NEVER = shutil.ignore_patterns("__pycache__", "*.pyc", ".git", ".venv", "node_modules", "static")


def needed(app: "Runtime") -> EvolvePlaces:
    """The places of a home that has an agent; a UsageError otherwise."""
    places = places_of(app.home.root)
    if not places.record.is_dir():
        raise UsageError("there is no repository for the agent yet.", remedy="Run `coilclaw evolve init` first.")
    return places


def make_repository(app: "Runtime", source: Path | None) -> str:
    """Make the record, the agent's side and its volume; the first commit of main."""
    places = places_of(app.home.root)
    if places.record.exists():
        raise UsageError(
            f"there is a repository at {places.record} already.",
            remedy="Use it, or remove it with `coilclaw evolve destroy`.",
        )
    if source is not None and not source.is_dir():
        raise UsageError(f"{source} is not a folder.", remedy="Name the folder of the source to begin with.")
    for folder in (places.root, places.bot, places.box, places.bot / ".signal", places.bot / "logs"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="new-", dir=places.root) as name:
        tree = Path(name)
        _copy_source(source, tree)
        _put_template(tree)
        try:
            return Record(places.root).init(tree)
        except RecordError as error:
            shutil.rmtree(places.record, ignore_errors=True)
            shutil.rmtree(places.remote, ignore_errors=True)
            raise UsageError(f"the repository could not be made: {error}.") from error


def _copy_source(source: Path | None, tree: Path) -> None:
    """Tracked files of a repository; all files of another folder; without either, the package that runs now."""
    if source is None:
        package = Path(coilclaw.__file__).parent
        root = package.parent.parent
        if package.parent.name == "src" and (root / "pyproject.toml").is_file() and (root / ".git").exists():
            source = root
        else:
            shutil.copytree(package, tree / "src" / "coilclaw", ignore=_NEVER)
            return
    if not (source / ".git").exists():
        shutil.copytree(source, tree, ignore=_NEVER, symlinks=True, dirs_exist_ok=True)
        return
    for name in run_git(source, "ls-files", "-z").split("\0"):
        file = source / name
        if name and file.is_file() and not file.is_symlink():
            place = tree / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)


def _put_template(tree: Path) -> None:
    """What every repository of an agent has, where the owner's own does not have it already.

    The watcher is a copy to improve: the one in force is CoilClaw's own.
    """
    for name in ("COMMS.md", "SYSTEM.md", "infra/runner.py", "spec/SPEC_AGENT.md"):
        if not (tree / name).exists():
            (tree / name).parent.mkdir(exist_ok=True)
            shutil.copy(_HERE / "template" / name, tree / name)
    ignored = tree / ".gitignore"
    lines = ignored.read_text(encoding="utf-8").splitlines() if ignored.is_file() else []
    wanted = (_HERE / "template" / "gitignore").read_text(encoding="utf-8").splitlines()
    lines += [line for line in wanted if line not in lines]
    ignored.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tree / "src").mkdir(exist_ok=True)
    if not (tree / "infra" / "watcher").exists():
        shutil.copytree(_HERE / "watcher", tree / "infra" / "watcher", ignore=_NEVER)
