# ruff: noqa: PTH113, PTH114, PTH115, PTH118, PTH119, PTH120, PTH123, PTH207 - text in, text out
"""Programs that the owner has and boxes have not, and what the owner can do about it."""

import glob
import os
import re
import shutil
from collections.abc import Iterable, Iterator

import msgspec

from coilclaw.sandbox.binaries import PATH
from coilclaw.sandbox.layout import OWN_PLACES

KEY = "security.toolchains"
_PLAIN = r"/[A-Za-z0-9_./+-]{1,300}"
"""Paths that may be put into a command that people copy."""
_NOT_FOUND = (
    r"^(?:/bin/sh: (?:line )?\d+|(?:/usr/bin/)?env|make(?:\[\d+\])?): (?:line \d+: )?[‘'\"]?([\w./+-]{1,200})[’'\"]?: "
    r"(?:command not found|not found|Command not found|No such file or directory)"
)
_ENVIRONMENTS = (".venv", "venv", "env")
_OWN_PROGRAMS = (*(f"{name}/bin" for name in _ENVIRONMENTS), "node_modules/.bin")
_MARKS = {"package.json": "node", "Cargo.toml": "cargo", "go.mod": "go", "Gemfile": "ruby"}
"""Files that tell which program a folder is worked on with."""


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """A program that boxes do not have."""

    what: str
    """What the matter is."""
    do: str = ""
    """What to do about it."""
    folder: str = ""
    """What the owner can lend to change that; empty if there is nothing of the kind."""

    @property
    def said(self) -> str:
        """Both, as sentences."""
        return f"{self.what}. {self.do}".strip()


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that commands run in, and what its owner has beside what boxes see."""

    folder: str
    user_home: str
    search_path: str
    """The owner's own PATH."""
    lent: tuple[str, ...]
    """The folders of programs that are lent already."""
    apart: tuple[str, ...] = ()
    """Further folders that are never lent."""

    def shows(self, path: str) -> bool:
        """Whether boxes have a file, wherever it really lies."""
        return any(_inside(path, top) for top in (*OWN_PLACES, *self.lent, self.folder))


def to_lend(folder: str) -> str:
    """The command by which the owner lends a folder."""
    return f"coilclaw config set --add {KEY} {folder}"


def lendable(program: str, user_home: str, apart: Iterable[str] = ()) -> str:
    """The folder to lend so that boxes can run a program, with every link on the way to it; empty if there is none.

    It is the installation that the program is a part of, `TOP/bin/PROGRAM`; nothing as wide as a home or `~/.local`,
    and nothing around or in the folders apart: what the agent can write would be run by every box.
    """
    real = os.path.realpath(program)
    if os.path.basename(os.path.dirname(real)) != "bin" or not os.path.isfile(real):
        return ""
    top = os.path.dirname(os.path.dirname(real))
    away = tuple(apart)
    for way in list(_links(program))[1:]:
        if not any(_inside(way, place) for place in (top, *away)):
            top = os.path.commonpath((way, top))
    home = os.path.realpath(user_home)
    hidden = os.path.dirname(top) == home and os.path.basename(top).startswith(".")
    hidden = hidden or os.path.dirname(top) == os.path.join(home, ".local")  # `share` has keys beside programs
    wide = top.count("/") < 2 or _inside(home, top) or hidden  # `/opt` is too wide, `/opt/python` is not
    own = any(_inside(top, place) or _inside(place, top) for place in (*OWN_PLACES, *away))
    return "" if wide or own or not re.fullmatch(_PLAIN, top) else top


def missing_program(said: str, sight: Sight) -> Missing | None:
    """Why a command did not find a program, by what it said; None when it said nothing of the kind, or who knows."""
    found = re.search(_NOT_FOUND, said, re.MULTILINE)
    if found is None:
        return None
    name = found[1]
    if name == "source":
        return Missing(what="`source` is a word of bash; /bin/sh has `. FILE`")
    if "/" in name:
        return _interpreter_of(name, sight)
    for place in _OWN_PROGRAMS:
        if os.path.lexists(os.path.join(sight.folder, place, name)):
            return Missing(what=f"This folder has its own {name}: {place}/{name}")
    if name == "python" and shutil.which("python3", path=PATH):
        return Missing(what="Here it is called python3")
    program = _of_owner(name, sight)
    return _outside(f"The owner has {name} at", program, sight) if program else None


def lacking(sight: Sight) -> list[Missing]:
    """The programs a folder is worked on with that boxes do not have, as far as its files tell."""
    environments = [name for name in _ENVIRONMENTS if os.path.isfile(os.path.join(sight.folder, name, "pyvenv.cfg"))]
    found = [_interpreter_of(f"{name}/bin/python", sight) for name in environments]
    for mark, name in _MARKS.items():
        if os.path.lexists(os.path.join(sight.folder, mark)) and shutil.which(name, path=PATH) is None:
            program = _of_owner(name, sight)
            found.append(_outside(f"{mark} is worked on with", program, sight) if program else None)
    return [each for each in found if each is not None and each.folder]


def _interpreter_of(name: str, sight: Sight) -> Missing | None:
    """A program of the folder that is there, but is a link to, or is run by, one that boxes do not have."""
    program = os.path.normpath(os.path.join(sight.folder, name))
    if not _inside(program, sight.folder) or not os.path.isfile(program):
        return None
    try:
        with open(os.open(program, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            first = file.readline(300)
    except OSError:
        return None
    words = first[2:].split() if first.startswith(b"#!/") else []
    needed = (program, *(os.fsdecode(word) for word in words[:1]))
    return next((missing for each in needed if (missing := _outside(f"{name} needs", each, sight))), None)


def _outside(what: str, program: str, sight: Sight) -> Missing | None:
    real = os.path.realpath(program)
    if not os.path.isfile(real) or sight.shows(real):
        return None
    what = f"{what} {real}, which boxes do not see"
    folder = lendable(program, sight.user_home, (sight.folder, *sight.apart))
    if not folder:
        return Missing(what=what, do="It has to be installed for the system, or in this folder.")
    return Missing(what=what, do=f"The owner can lend it, read-only: `{to_lend(folder)}`.", folder=folder)


def _of_owner(name: str, sight: Sight) -> str:
    """A program as the owner has it outside the system: past the shims of version managers, the version in use."""
    found = shutil.which(name, path=sight.search_path)
    if found is None:
        return ""
    manager = os.path.dirname(os.path.dirname(found))
    if os.path.basename(os.path.dirname(found)) == "shims":  # pyenv, rbenv, nodenv; asdf and mise
        ways = (f"versions/*/bin/{name}", f"installs/*/*/bin/{name}")
    elif os.path.basename(os.path.realpath(found)) == "rustup":
        manager, ways = os.path.join(sight.user_home, ".rustup"), (f"toolchains/*/bin/{name}",)
    else:
        return found
    versions = [each for way in ways for each in glob.glob(os.path.join(glob.escape(manager), way))]
    versions.sort(key=lambda each: [int(number) for number in re.findall(r"\d+", each)])
    chosen = _first_line(os.path.join(manager, "version"))
    return next((each for each in versions if chosen and f"/{chosen}/" in each), versions[-1] if versions else "")


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline(100).strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _links(path: str) -> Iterator[str]:
    """A path, and where each link leads in turn; the folders of these may be links too."""
    for _ in range(20):
        yield os.path.normpath(path)
        if not os.path.islink(path):
            return
        path = os.path.join(os.path.dirname(path), os.readlink(path))


def _inside(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")
