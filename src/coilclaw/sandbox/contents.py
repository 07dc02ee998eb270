"""Contents: bytes by their hash in a folder of their own, each there whole and durable, or not there."""

import os
import zlib
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from coilclaw.packets.canonical import sha256_hex

BATCH = 256
BATCH_BYTES = 32 << 20
"""So many new ones are made durable together: a disk that syncs one at a time would take too long."""
_THREADS = 16
_FEW = 4
_STRAY = ".new"


class Contents:
    """The contents there are. A name is a hash, and what is read is held against it."""

    def __init__(self, folder: Path, largest: int) -> None:
        self.folder = folder
        self._largest = largest

    def place(self, content: str) -> Path:
        """Where the content of that hash lies."""
        return self.folder / content[:2] / content[2:]

    def seems_there(self, content: str) -> bool:
        """Whether something lies there. What a power cut leaves of a file is empty; no content is, compressed."""
        try:
            return self.place(content).stat().st_size > 0
        except OSError:
            return False

    def read(self, content: str) -> bytes | None:
        """The content of that hash; None when it is gone or damaged."""
        try:
            data = zlib.decompressobj().decompress(self.place(content).read_bytes(), self._largest)
        except (OSError, zlib.error):
            return None
        return data if sha256_hex(data) == content else None


class Adding:
    """New contents in the making. They are in their places when `settle` returns; what is not goes at the end."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._aside: dict[str, Path] = {}
        self._aside_bytes = 0
        self._folders: set[Path] = set()
        self.added = 0
        """Bytes of content that was not there before."""

    def __enter__(self) -> "Adding":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for path in self._aside.values():
            path.unlink(missing_ok=True)
        self._aside.clear()

    def add(self, data: bytes) -> str:
        """Keep a content, unless it is there and sound. Its hash."""
        content = sha256_hex(data)
        if content in self._aside:
            return content
        place = self._contents.place(content)
        self._folders.add(place.parent)
        if self._contents.read(content) is not None:
            with suppress(OSError):
                os.utime(place)  # young again: whoever lets old ones go may not know yet that it is needed
            return content
        make_folder(place.parent)
        aside = place.with_name(f"{place.name}.{os.urandom(4).hex()}{_STRAY}")
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._aside[content] = aside
        with os.fdopen(fd, "wb") as file:
            self._aside_bytes += file.write(zlib.compress(data, 1))
        self.added += len(data)
        if len(self._aside) >= BATCH or self._aside_bytes >= BATCH_BYTES:
            self._put()
        return content

    def settle(self) -> None:
        """Whatever was added is durable, under its name."""
        self._put()
        _sync_all(self._folders)
        self._folders.clear()

    def _put(self) -> None:
        """A file is synced before it gets its name: one that has it can be relied on."""
        _sync_all(self._aside.values())
        for content in list(self._aside):
            self._aside[content].replace(self._contents.place(content))
            del self._aside[content]
        self._aside_bytes = 0


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_all(paths: Collection[Path]) -> None:
    """Side by side: the system makes what waits at the same time durable together."""
    if len(paths) < _FEW:
        for path in paths:
            _sync(path)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_THREADS) as threads:
        for _ in threads.map(_sync, paths):
            pass  # the first that failed is raised here


def make_folder(path: Path) -> None:
    """A folder for the owner alone, with those above it, whose names survive a power cut."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True, mode=0o700)
    _sync(path.parent)
