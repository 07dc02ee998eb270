"""The installed versions of coding programs, side by side, each with the hash of its files and its proof."""

import hashlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.runner.adapters.contract import Adapter
from coilclaw.features.runner.adapters.integrity import checked_packages
from coilclaw.features.runner.adapters.proof import ProofResult, prove
from coilclaw.packets.errors import ToolError

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

FOLDER = ".adapters"
CURRENT = "current"
"""The version that new sessions get, and those that they got before, the newest first."""
_VERSION = r"^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$"


class InstalledVersion(msgspec.Struct, frozen=True, kw_only=True):
    """What is on record about a version."""

    version: str
    sha256: str
    """Over the names, kinds and contents of all its files."""
    packages: tuple[tuple[str, str], ...] = ()
    """The packages it is made of, and what npm says is their hash."""
    proved: tuple[ProofResult, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether it did in every way as its hook said."""
        return bool(self.proved) and all(each.holds for each in self.proved)


class Versions:
    """Beside the checkouts and not in the home, which no box may see. No box can write here."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app
        self._folder = Path(os.path.realpath(app.config.sessions_dir)) / FOLDER

    def folder(self, adapter: Adapter, version: str = "") -> Path:
        """Where a version of a program is, or would be."""
        return self._folder / adapter.name / version if version else self._folder / adapter.name

    def installed(self, adapter: Adapter) -> list[InstalledVersion]:
        """The versions that are there."""
        found = sorted(self.folder(adapter).glob("*.json"))
        return [msgspec.json.decode(each.read_bytes(), type=InstalledVersion) for each in found]

    def history(self, adapter: Adapter) -> list[str]:
        """The version that new sessions get, then those before it."""
        try:
            return (self.folder(adapter) / CURRENT).read_text().split()
        except OSError:
            return []

    def in_use(self, adapter: Adapter) -> Path:
        """The folder of the version that new sessions get."""
        known = self.history(adapter)
        if not known or not self.folder(adapter, known[0]).is_dir():
            raise ToolError(
                f"{adapter.name} is not installed.",
                remedy=f"See `coilclaw adapter install {adapter.name} --help`.",
                code="NOT_INSTALLED",
                begun=False,
            )
        return self.folder(adapter, known[0])

    def named(self, adapter: Adapter, version: str) -> InstalledVersion:
        """A version by its name; that in use without one."""
        wanted = version or next(iter(self.history(adapter)), "")
        for each in self.installed(adapter):
            if each.version == wanted:
                return each
        raise ToolError(
            f"{adapter.name} {version} is not installed.",
            remedy="See `coilclaw adapter list`.",
            code="NOT_INSTALLED",
            begun=False,
        )

    def take(self, adapter: Adapter, source: Path) -> InstalledVersion:
        """Copy a program out of a folder that npm installed it in."""
        scope = adapter.package.partition("/")[0]
        about = source / "node_modules" / adapter.package / "package.json"
        try:
            version = str(msgspec.json.decode(about.read_bytes(), type=dict[str, object])["version"])
        except (OSError, msgspec.DecodeError, KeyError) as error:
            raise ToolError(
                f"{source} has no {adapter.package}.",
                remedy=f"Run `npm install --prefix {source} {adapter.package}@{adapter.version}` first.",
                code="NOT_INSTALLED",
                begun=False,
            ) from error
        place = self.folder(adapter, checked_version(version))
        if place.exists():
            return self.named(adapter, version)
        packages = checked_packages(adapter, source)
        new = place.with_name(f".new-{version}")
        shutil.rmtree(new, ignore_errors=True)
        shutil.copytree(source / "node_modules" / scope, new / "node_modules" / scope, symlinks=True)
        made = InstalledVersion(version=version, sha256=tree_hash(new), packages=packages)
        self._record(adapter, made)
        new.rename(place)
        return made

    async def try_out(self, adapter: Adapter, version: str) -> InstalledVersion:
        """Prove a version, and keep what that showed. Its files must be those that were installed."""
        known = self.named(adapter, version)
        place = self.folder(adapter, known.version)
        if tree_hash(place) != known.sha256:
            raise ToolError(
                f"files of {adapter.name} {known.version} have changed since it was installed.",
                remedy=f"Remove {place} and install it again.",
                code="HASH_DIFFERS",
                begun=False,
            )
        proved = msgspec.structs.replace(known, proved=await prove(self._app, adapter, place))
        self._record(adapter, proved)
        return proved

    def must_be_sound(self, adapter: Adapter, version: str) -> None:
        """Raise ToolError unless it passed its proof."""
        if not self.named(adapter, version).sound:
            raise ToolError(
                f"{adapter.name} {version} has not passed its proof.",
                remedy=f"Run `coilclaw adapter try {adapter.name} {version}`.",
                code="NOT_PROVED",
                begun=False,
            )

    def distrust(self, adapter: Adapter, version: str) -> None:
        """Forget that a version passed its proof."""
        self._record(adapter, msgspec.structs.replace(self.named(adapter, version), proved=()))

    def use(self, adapter: Adapter, version: str) -> str:
        """Give this version to new sessions; those that run keep theirs. Nothing is on trial then."""
        self.must_be_sound(adapter, version)
        (self.folder(adapter) / "canary").unlink(missing_ok=True)
        self._write_history(adapter, [version, *(each for each in self.history(adapter) if each != version)])
        return version

    def roll_back(self, adapter: Adapter) -> str:
        """Give the version before to new sessions."""
        known = self.history(adapter)
        if len(known) < 2:
            raise ToolError(
                f"there is no version of {adapter.name} before this one.", code="NOT_INSTALLED", begun=False
            )
        self._write_history(adapter, known[1:])
        return known[1]

    def _record(self, adapter: Adapter, version: InstalledVersion) -> None:
        replace_file(self.folder(adapter) / f"{version.version}.json", msgspec.json.encode(version))

    def _write_history(self, adapter: Adapter, versions: list[str]) -> None:
        replace_file(self.folder(adapter) / CURRENT, "\n".join(versions[:10]).encode())


def checked_version(version: str) -> str:
    """A version that can be the name of a folder."""
    import re

    if not re.fullmatch(_VERSION, version):
        raise ToolError(f"{version[:80]!r} is not a version.", code="NOT_INSTALLED", begun=False)
    return version


def tree_hash(folder: Path) -> str:
    """A hash over the names, kinds and contents of everything below a folder."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        kind = "l" if path.is_symlink() else "d" if path.is_dir() else "x" if os.access(path, os.X_OK) else "f"
        whole.update(f"{kind} {path.relative_to(folder)}\0".encode("utf-8", "surrogateescape"))
        if kind == "l":
            whole.update(os.fsencode(path.readlink()))
        elif kind != "d":
            with path.open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


def replace_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(data)
    new.replace(path)
