"""What one job of a workflow hands to the next: a folder of files, and a manifest whose hash goes another way.

The folder is an artifact, the hash of its manifest an output of the job. Nothing is used that it does not cover.
"""

import os
import stat
from pathlib import Path

import msgspec

from coilclaw.packets.canonical import canonical_bytes, sha256_hex
from coilclaw.packets.errors import UsageError

MANIFEST = "manifest.json"
MOST_FILES, MOST_BYTES = 2000, 256 << 20


class HandoverManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every file by its path, with the hash of what it holds."""

    version: int
    files: dict[str, str]


class Handed:
    """A folder that is exactly what its manifest says."""

    def __init__(self, folder: Path, files: dict[str, bytes]) -> None:
        self.folder = folder
        self._files = files

    def read(self, name: str) -> bytes:
        """What a file holds; UsageError when it is not there."""
        if name not in self._files:
            raise UsageError(f"{name} was not handed over.")
        return self._files[name]

    def names(self, prefix: str = "") -> list[str]:
        """The files below a folder."""
        return sorted(name for name in self._files if name.startswith(prefix))


def seal(folder: Path) -> str:
    """Write the manifest of a folder; its hash."""
    files = {name: sha256_hex(data) for name, data in _files(folder).items() if name != MANIFEST}
    data = canonical_bytes({"version": 1, "files": {**files}})
    (folder / MANIFEST).write_bytes(data)
    return sha256_hex(data)


def take(folder: Path, digest: str) -> Handed:
    """Take a folder in whose manifest has this hash; UsageError when a file is missing, changed or added."""
    files = _files(folder)
    data = files.pop(MANIFEST, b"")
    if sha256_hex(data) != digest:
        raise UsageError(f"the manifest of {folder.name} is not the one that was handed over.")
    try:
        manifest = msgspec.json.decode(data, type=HandoverManifest)
    except msgspec.DecodeError as error:
        raise UsageError(f"the manifest of {folder.name} cannot be read: {error}.") from error
    if manifest.version != 1 or {name: sha256_hex(held) for name, held in files.items()} != manifest.files:
        raise UsageError(f"the files of {folder.name} are not what its manifest says.")
    return Handed(folder, files)


def _files(folder: Path) -> dict[str, bytes]:
    """Every regular file below a folder; a link or anything else is refused."""
    found: dict[str, bytes] = {}
    weight = 0
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            file = Path(place, name)
            kind = file.lstat()
            if stat.S_ISDIR(kind.st_mode):
                continue
            weight += kind.st_size
            if not stat.S_ISREG(kind.st_mode) or len(found) >= MOST_FILES or weight > MOST_BYTES:
                raise UsageError(f"{folder.name} holds a link, too many files or too much.")
            found[file.relative_to(folder).as_posix()] = file.read_bytes()
    return found
