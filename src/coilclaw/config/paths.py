"""The home's layout, and expanding paths that a person wrote."""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from coilclaw.packets.errors import ConfigError


class Home(msgspec.Struct, frozen=True):
    """The private directory (0700) with everything CoilClaw stores except the workspace."""

    root: Path

    @property
    def config_file(self) -> Path:
        """The file the owner edits."""
        return self.root / "config.toml"

    @property
    def database(self) -> Path:
        """The database, unless `memory.path` says otherwise."""
        return self.root / "memory.sqlite"

    @property
    def keys_dir(self) -> Path:
        """Signing and encryption keys, 0600 each."""
        return self.root / "keys"

    @property
    def estop_file(self) -> Path:
        """While this file exists, nothing runs."""
        return self.root / "ESTOP"

    @property
    def plugins_dir(self) -> Path:
        """Tools added by the owner."""
        return self.root / "plugins"

    @property
    def logs_dir(self) -> Path:
        """Logs of the processes."""
        return self.root / "logs"

    @property
    def projects_dir(self) -> Path:
        """Snapshots and quarantine of projects, one folder each."""
        return self.root / "projects"

    @property
    def trees_dir(self) -> Path:
        """What is kept about the trees of jobs, a folder each: snapshots and quarantine."""
        return self.root / "trees"

    @property
    def locks_dir(self) -> Path:
        """Lock files of live processes."""
        return self.root / "locks"

    @property
    def workspace_link(self) -> Path:
        """A link to the workspace."""
        return self.root / "workspace"


class BadPath(ValueError):
    """A path that cannot be expanded; the message completes the sentence "this path ..."."""


def home_from(environ: Mapping[str, str]) -> Home:
    """The home: `COILCLAW_HOME` when set and not empty, otherwise `~/.coilclaw`."""
    written = environ.get("COILCLAW_HOME", "")
    try:
        return Home(absolute(written or "~/.coilclaw", Path(os.getcwd()), environ))  # noqa: PTH109  one call, no Path
    except BadPath as error:
        place = "COILCLAW_HOME" if written else "the home directory"
        raise ConfigError([f"{place} {error}"], remedy="Set COILCLAW_HOME to an absolute path.") from error
    except FileNotFoundError as error:
        remedy = "Change to a directory that exists."
        raise ConfigError(["the current directory no longer exists"], remedy=remedy) from error


def absolute(text: str, start: Path, environ: Mapping[str, str]) -> Path:
    """Expand `~`, `~name`, `$NAME` and `${NAME}`; a relative path is relative to `start`; `..` is kept as written."""
    if "\0" in text:
        raise BadPath("contains a NUL character")
    if "$" in text:
        text = _with_variables(text, environ)
    if text.startswith("~"):
        first, slash, rest = text.partition("/")
        text = _user_home(first[1:], environ) + slash + rest
    return Path(os.path.normpath(os.path.join(start, text)))  # noqa: PTH118  normpath keeps `..` lexical


def resolved(path: Path) -> Path:
    """The path with links resolved, as far as it exists."""
    return Path(os.path.realpath(path))


def stands_as(path: Path) -> Literal["nothing", "directory", "other"]:
    """What is at a path; inaccessible counts as nothing."""
    try:
        return "directory" if stat.S_ISDIR(path.stat().st_mode) else "other"
    except OSError:
        return "nothing"


def _with_variables(text: str, environ: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1] if match[1] is not None else match[2]
        # An empty variable would turn "$DATA/notes" into "/notes": as wrong as an undefined one.
        if not environ.get(name):
            raise BadPath(f"uses the variable ${name[:64]}, which is not set; set it or write the path out")
        return environ[name]

    expanded = re.sub(r"\$(?:\{([^}]*)\}|([A-Za-z_][A-Za-z0-9_]*))", value, text)
    if "${" in text and "}" not in text:
        raise BadPath('contains "${" without a closing "}"')
    return expanded


def _user_home(name: str, environ: Mapping[str, str]) -> str:
    if not name and environ.get("HOME"):
        return environ["HOME"]
    import pwd

    try:
        return (pwd.getpwnam(name) if name else pwd.getpwuid(os.getuid())).pw_dir
    except KeyError:
        if name:
            raise BadPath(f"begins with ~{name[:32]}, but there is no such user") from None
        raise BadPath("begins with ~, but HOME is not set") from None
