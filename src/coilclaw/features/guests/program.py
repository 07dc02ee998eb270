"""A guest's program on disk: which folders its box needs, and the hash of its files.

The hash covers the folder of every file that the command names, and the interpreter itself. A program without such a
file is hashed with its own folder, unless the system owns it: what root installed is the owner's already. What lies in
a folder that the guest is given is data, which may change, except code: the script of an interpreter, a file whose
name says that it is code, and whatever is named to a program that runs others.
"""

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from coilclaw.packets.box import BoxMount
from coilclaw.packets.errors import UsageError

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64")
_TAKEN = (*SYSTEM, "/proc", "/dev", "/tmp", "/etc", "/var", "/run", "/sys")  # noqa: S108 - paths that every box has
_UNREAL = ("/proc", "/sys", "/dev")
"""What lies here is made up by the kernel as it is read: it has no content that a hash could stand for."""
_INTERPRETER = re.compile(
    r"(python|pypy|node|nodejs|deno|bun|tsx|ts-node|ruby|perl|php|lua|java|julia|Rscript|dotnet"
    r"|env|busybox|nice|timeout|(ba|da|z|k)?sh)[0-9.]*"
)
_RUNNER = re.compile(
    r"(uv|poetry|pdm|hatch|pipenv|rye|npm|pnpm|yarn|nodemon|go|cargo|make|gradle|mvn|nohup|setsid|stdbuf|xargs)[0-9.]*"
)
_CODE = re.compile(
    r".*\.(py|pyz|[mc]?js|[mc]?ts|[jt]sx|rb|pl|php|lua|sh|bash|jar|jl|r|exs|wasm|so)", re.IGNORECASE | re.DOTALL
)
_FETCHING = (
    ("npx",), ("bunx",), ("uvx",), ("npm", "exec"), ("npm", "x"), ("pnpm", "dlx"), ("yarn", "dlx"), ("bun", "x"),
    ("uv", "tool", "run"), ("uv", "x"), ("pipx", "run"), ("docker",), ("podman",),
)  # fmt: skip
MOST_FILES = 50_000
MOST_BYTES = 1 << 30


class GuestProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A command that can run in a box."""

    argv: tuple[str, ...]
    """As it is spelled inside the box."""
    mounts: tuple[BoxMount, ...]
    digest: str


def find_program(command: tuple[str, ...], path: str, given: tuple[BoxMount, ...] = ()) -> GuestProgram:
    """Resolve a command of a guest that is given these folders; raises UsageError if it cannot run in a box.

    Reads every file of the program, so call it in a thread.
    """
    for word in command:
        if _is_unreal(word):
            raise UsageError(f"{word[:80]!r} is not a file that can be run as a program.", remedy="Name a real file.")
    if package := _fetched(command):
        raise UsageError(
            f"{' '.join(package)[:80]} fetches its program when it starts, so there is nothing to approve.",
            remedy="Install it first, such as with `npm install --prefix ~/mcp PACKAGE`, and name what that installed.",
        )
    found = shutil.which(command[0], path=path)
    if found is None:
        raise UsageError(f"there is no program {command[0]!r}.", remedy="Install it, or give its full path.")
    program = os.path.abspath(found)  # noqa: PTH100 - a virtual environment is found by the link's own place
    there = [word for word in command[1:] if word.startswith("/") and Path(word).exists()]
    named = [word for word in there if not _is_given(word, given) or _is_run(word, program, command, there)]
    folders = [folder for word in (program, *named) for folder in _folders(word)]
    mounts = _mounts(folders)
    hashed = [_folder_of(word) for word in named] or ([] if _is_system(program) else [_folder_of(program)])
    digest = _digest([os.path.realpath(program)], [folder for folder in hashed if not _is_system(folder)])
    parts = {program, *named}
    argv = tuple(_inside(word, mounts if word in parts else (*given, *mounts)) for word in (program, *command[1:]))
    return GuestProgram(argv=argv, mounts=mounts, digest=digest)


def _fetched(command: tuple[str, ...]) -> tuple[str, ...]:
    """The words of a command that runs what it fetches; none if it does not."""
    words = (Path(command[0]).name, *command[1:])
    return next((each for each in _FETCHING if words[: len(each)] == each), ())


def _is_run(word: str, program: str, command: tuple[str, ...], there: list[str]) -> bool:
    """Whether the program runs what a word names, as far as can be told: then it is part of the program."""
    names = (Path(program).name, Path(os.path.realpath(program)).name)
    if _CODE.fullmatch(word) or any(map(_RUNNER.fullmatch, names)):
        return True
    first = word == there[0] and "-m" not in command[: command.index(word)]
    return first and any(map(_INTERPRETER.fullmatch, names))


def _is_given(word: str, given: tuple[BoxMount, ...]) -> bool:
    real = os.path.realpath(word)
    return any(real == mount.source or real.startswith(f"{mount.source}/") for mount in given)


def _is_unreal(word: str) -> bool:
    if "\0" in word:
        return True
    places = (os.path.normpath(word), os.path.realpath(word)) if word.startswith("/") else ()
    return any(place == top or place.startswith(f"{top}/") for top in _UNREAL for place in places)


def absolute_command(command: tuple[str, ...], start: str) -> tuple[str, ...]:
    """The command with existing files spelled in full, because it will run elsewhere."""

    def spelled(word: str) -> str:
        path = Path(start, word).expanduser() if not word.startswith("~") else Path(word).expanduser()
        return str(path) if ("/" in word or word.startswith("~")) and path.exists() else word

    first = command[0] if "/" not in command[0] else spelled(command[0])
    return (first, *map(spelled, command[1:]))


def folder_mounts(read: Iterable[str], write: Iterable[str], user_home: Path) -> tuple[BoxMount, ...]:
    """The owner's folders as a guest sees them: in their own places."""
    given = [(folder, False) for folder in read] + [(folder, True) for folder in write]
    made: list[BoxMount] = []
    for folder, writable in given:
        path = str(user_home) + folder[1:] if folder == "~" or folder.startswith("~/") else folder
        if not Path(path).is_absolute():
            raise UsageError(f"the folder {folder} is not spelled in full.", remedy="Begin it with / or ~/.")
        if not Path(path).is_dir():
            raise UsageError(f"the folder {folder} does not exist.", remedy="Create it, or remove it from the guest.")
        real = os.path.realpath(path)
        if real != os.path.normpath(path):  # the card showed one name, and a link can be led elsewhere later
            raise UsageError(f"the folder {folder} leads to {real} through a link.", remedy="Name that folder itself.")
        made.append(BoxMount(source=real, at=_place(real, len(made), "files"), writable=writable))
    return tuple(made)


def must_be_apart(mounts: Iterable[BoxMount], worked_in: Iterable[Path]) -> None:
    """Refuse what overlaps a folder that the agent works in: it could change a program after its hash was taken, and
    the labels, snapshots and protected names of that folder do not hold for a guest."""
    places = [Path(os.path.realpath(place)) for place in worked_in]
    for mount in mounts:
        source = Path(mount.source)
        for place in places:
            if source.is_relative_to(place) or place.is_relative_to(source):
                raise UsageError(
                    f"{source} and {place}, where the agent works, lie in one another.",
                    remedy="Give the guest a folder apart from the workspace and from projects.",
                )


def folder_digest(folder: Path) -> str:
    """The hash of everything in a folder: names, contents, links and which files are executable."""
    return _digest([], [str(folder)])


def _folders(word: str) -> Iterator[str]:
    """The folder of a file, and of what it links to."""
    for spelling in dict.fromkeys((word, os.path.realpath(word))):
        folder = os.path.realpath(_folder_of(spelling))
        if not _is_system(folder):
            yield folder


def _folder_of(word: str) -> str:
    """The folder that a program needs: a virtual environment, what holds `node_modules`, or where the file lies."""
    path = Path(word)
    if "node_modules" in path.parts:
        return str(Path(*path.parts[: path.parts.index("node_modules")]))
    for parent in path.parents:
        if (parent / "pyvenv.cfg").is_file():
            return str(parent)
    if path.is_dir():
        return word
    return str(path.parent.parent if path.parent.name == "bin" else path.parent)


def _is_system(path: str) -> bool:
    return any(path == top or path.startswith(f"{top}/") for top in SYSTEM)


def _mounts(folders: Iterable[str]) -> tuple[BoxMount, ...]:
    outer: list[str] = []
    for folder in sorted(set(folders), key=len):
        if folder in ("/", str(Path.home()), "/home", "/root") or folder.count("/") < 2:
            raise UsageError(
                f"the program lies in {folder}, which holds more than the program.",
                remedy="Put it into a folder of its own.",
            )
        if not any(folder == each or folder.startswith(f"{each}/") for each in outer):
            outer.append(folder)
    return tuple(
        BoxMount(source=each, at=_place(each, number, "program"), writable=False) for number, each in enumerate(outer)
    )


def _place(folder: str, number: int, name: str) -> str:
    taken = any(folder == top or folder.startswith(f"{top}/") for top in _TAKEN)
    return f"/guest/{name}{number}" if taken else folder


def _inside(word: str, mounts: tuple[BoxMount, ...]) -> str:
    """A path as it is spelled inside the box. A link that leads out of what is mounted is spelled as its target."""
    for spelling in (word, os.path.realpath(word)) if word.startswith("/") else ():
        for mount in mounts:
            if spelling == mount.source or spelling.startswith(f"{mount.source}/"):
                return mount.at + spelling[len(mount.source) :]
    return word


def _digest(files: list[str], folders: list[str]) -> str:
    try:
        return _hashed(files, folders)
    except OSError as error:
        raise UsageError(
            f"{error.filename} cannot be read ({error.strerror}), so the program has no hash.",
            remedy="Make it readable, or put the program into a folder of its own.",
        ) from error


def _hashed(files: list[str], folders: list[str]) -> str:
    made, count, size = hashlib.sha256(), 0, 0
    for path, name in (*((Path(file), file) for file in files), *_all_files(folders)):
        if path is None:
            made.update(b"\0")  # no name begins so: what lies in one folder cannot pass for the next one's
            continue
        state = path.lstat()
        count, size = count + 1, size + state.st_size
        if count > MOST_FILES or size > MOST_BYTES:
            raise UsageError(
                f"the program has more than {MOST_FILES} files or {MOST_BYTES >> 20} MB.",
                remedy="Put it into a folder of its own.",
            )
        made.update(f"{name}\0{_kind(state)}\0".encode("utf-8", "surrogateescape"))
        if stat.S_ISLNK(state.st_mode):
            made.update(os.fsencode(path.readlink()))
        elif stat.S_ISREG(state.st_mode):
            with path.open("rb") as file:
                made.update(hashlib.file_digest(file, "sha256").digest())
        made.update(b"\0")
    return made.hexdigest()


def _all_files(folders: list[str]) -> Iterator[tuple[Path | None, str]]:
    """Every entry, and None between two folders, in an order that depends on names alone. Compiled code is left out:
    it is made by running the program elsewhere, and Python in a guest's box does not look at it."""
    for number, folder in enumerate(sorted(set(folders))):
        if number:
            yield None, ""
        for top, below, names in os.walk(folder):
            below[:] = sorted(name for name in below if name != "__pycache__")
            for name in sorted((*names, *(each for each in below if Path(top, each).is_symlink()))):
                path = Path(top, name)
                yield path, str(path.relative_to(folder))


def _kind(state: os.stat_result) -> str:
    if stat.S_ISREG(state.st_mode):
        return "x" if state.st_mode & 0o111 else "f"
    return "l" if stat.S_ISLNK(state.st_mode) else "o"
