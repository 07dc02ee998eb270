"""A content-addressed store: bytes by hash, each complete and durable, or absent.

A content is its own file; many small new ones go into packs, because syncing one file at a time would
take too long. A pack is the compressed contents in sequence, then a table of offsets, then the table's length.
"""

import hashlib
import os
import zlib
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import msgspec

from coilclaw.packets.canonical import sha256_hex

SMALL = 1 << 20
"""Larger contents are read, compressed and written in chunks, each into its own file."""
FEW = 16
"""Up to this many new small contents get a file each."""
PACKED = 2000
PACKED_BYTES = 16 << 20
"""A pack is written once it has this many contents or bytes."""
_THREADS = 16
_FEW = 4
_STRAY = ".new"
_MAGIC = b"CCPACK1\n"
_TABLE = msgspec.msgpack.Decoder(dict[str, tuple[int, int]])


class Damaged(OSError):
    """The stored content does not match its hash."""


class BlobStore:
    """The stored contents. A name is a hash, and every read is checked against it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._packed: dict[str, tuple[Path, int, int]] | None = None

    def place(self, content: str) -> Path:
        """The path of a content with its own file."""
        return self.folder / content[:2] / content[2:]

    def packs(self) -> list[Path]:
        """Every pack, damaged ones too."""
        return sorted(self.folder.glob("*.pack"))

    def packed(self) -> dict[str, tuple[Path, int, int]]:
        """The position of each packed content; cached until `look_anew`."""
        if self._packed is None:
            self._packed = {}
            for pack in self.packs():
                for content, (start, length) in table_of(pack).items():
                    self._packed[content] = (pack, start, length)
        return self._packed

    def look_anew(self) -> None:
        """Drop the cache of packed contents: another process may have changed them, and it uses memory."""
        self._packed = None

    def seems_there(self, content: str) -> bool:
        """Whether a content exists. A power cut may leave an empty file; no compressed content is empty."""
        if content in self.packed():
            return True
        try:
            return os.stat(f"{self.folder}/{content[:2]}/{content[2:]}").st_size > 0  # noqa: PTH116 - for speed
        except OSError:
            return False

    def read(self, content: str) -> bytes | None:
        """The content with that hash; None if it is missing or damaged."""
        try:
            return b"".join(self.pieces(content))
        except OSError:
            return None

    def pieces(self, content: str) -> Iterator[bytes]:
        """The content with that hash in chunks; raises Damaged at the end if it does not match, or is missing."""
        found = hashlib.sha256()
        try:
            for piece in self._unpacked(content):
                found.update(piece)
                yield piece
        except (zlib.error, FileNotFoundError) as error:
            raise Damaged from error
        if found.hexdigest() != content:
            raise Damaged

    def _unpacked(self, content: str) -> Iterator[bytes]:
        where = self.packed().get(content)
        path, start, left = where or (self.place(content), 0, -1)
        unpacking = zlib.decompressobj()
        with path.open("rb") as file:
            file.seek(start)
            while piece := file.read(SMALL if left < 0 else min(SMALL, left)):
                left -= len(piece) if left > 0 else 0
                while piece:
                    yield unpacking.decompress(piece, SMALL)
                    piece = unpacking.unconsumed_tail
                if left == 0:
                    break
        yield unpacking.flush()

    def touch(self, content: str) -> None:
        """Refresh its age, so that a concurrent cleanup does not delete it."""
        where = self.packed().get(content)
        with suppress(OSError):
            os.utime(where[0] if where else self.place(content))


class Adding:
    """New contents being written. They are in place when `settle` returns; the rest is removed at the end."""

    def __init__(self, contents: BlobStore) -> None:
        self.contents = contents
        self._small: dict[str, bytes] = {}
        self._small_bytes = 0
        self._aside: dict[str, Path] = {}
        self._folders: set[Path] = set()
        self.added = 0
        """Compressed bytes of new contents."""

    def __enter__(self) -> "Adding":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for path in self._aside.values():
            path.unlink(missing_ok=True)
        self._aside.clear()
        self._small.clear()

    def add(self, data: bytes) -> str:
        """Store a content unless it is already there intact; returns its hash."""
        content = sha256_hex(data)
        if content in self._small or content in self._aside or self._is_sound(content):
            return content
        self._small[content] = zlib.compress(data, 1)
        self._small_bytes += len(self._small[content])
        self.added += len(self._small[content])
        if len(self._small) >= PACKED or self._small_bytes >= PACKED_BYTES:
            self.flush()
        return content

    def add_file(self, fd: int) -> str:
        """Store the content of an open file; returns its hash."""
        first = os.read(fd, SMALL)
        if len(first) < SMALL:
            while piece := os.read(fd, SMALL):
                first += piece
            return self.add(first)
        return self._add_large(first, fd)

    def _add_large(self, piece: bytes, fd: int) -> str:
        make_folder(self.contents.folder)
        aside = self.contents.folder / f"large.{os.urandom(4).hex()}{_STRAY}"
        self._aside[aside.name] = aside
        found, packing = hashlib.sha256(), zlib.compressobj(1)
        with _create(aside) as file:
            while piece:
                found.update(piece)
                file.write(packing.compress(piece))
                piece = os.read(fd, SMALL)
            file.write(packing.flush())
        content = found.hexdigest()
        del self._aside[aside.name]
        if content in self._aside or self._is_sound(content):
            aside.unlink()
            return content
        make_folder(self.contents.place(content).parent)
        self._aside[content] = aside
        self.added += aside.stat().st_size
        self._put_aside()
        return content

    def _is_sound(self, content: str) -> bool:
        if not self.contents.seems_there(content):
            return False
        try:
            for _ in self.contents.pieces(content):
                pass
        except OSError:
            return False
        self.contents.touch(content)
        self._folders.add(self.contents.place(content).parent)
        return True

    def settle(self) -> None:
        """Make everything that was added durable."""
        self.flush()
        _sync_all([folder for folder in self._folders if folder.is_dir()])
        self._folders.clear()

    def flush(self) -> None:
        """Give added contents their names; the names become durable with `settle`."""
        if len(self._small) > FEW:
            self._write_pack()
        for content, data in self._small.items():
            place = self.contents.place(content)
            make_folder(place.parent)
            aside = place.with_name(f"{place.name}.{os.urandom(4).hex()}{_STRAY}")
            self._aside[content] = aside
            with _create(aside) as file:
                file.write(data)
        self._put_aside()
        self._small.clear()
        self._small_bytes = 0

    def _write_pack(self) -> None:
        make_folder(self.contents.folder)
        name = f"{os.urandom(10).hex()}.pack"
        self._aside[name] = aside = self.contents.folder / f"{name}{_STRAY}"
        table = write_pack(aside, self._small)
        _sync(aside)
        pack = aside.replace(self.contents.folder / name)
        del self._aside[name]
        self.contents.packed().update({content: (pack, *where) for content, where in table.items()})
        self._folders.add(self.contents.folder)
        self._small.clear()

    def _put_aside(self) -> None:
        """A file is synced before it gets its name, so that a named file is always complete."""
        _sync_all(self._aside.values())
        for content in list(self._aside):
            place = self.contents.place(content)
            self._aside[content].replace(place)
            self._folders.add(place.parent)
            del self._aside[content]


def _create(path: Path) -> BinaryIO:
    """A new file with owner-only permissions."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


def write_pack(path: Path, blobs: dict[str, bytes]) -> dict[str, tuple[int, int]]:
    """A pack of these compressed contents, and their positions."""
    table: dict[str, tuple[int, int]] = {}
    with _create(path) as file:
        for content, data in blobs.items():
            table[content] = (file.tell(), len(data))
            file.write(data)
        written = msgspec.msgpack.encode(table)
        file.write(written + len(written).to_bytes(8, "big") + _MAGIC)
    return table


def table_of(pack: Path) -> dict[str, tuple[int, int]]:
    """The positions of a pack's contents; empty if the pack cannot be read."""
    end = 8 + len(_MAGIC)
    try:
        with pack.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - end))
            last = file.read(end)
            length = int.from_bytes(last[:8], "big")
            if last[8:] != _MAGIC or length > size - end:
                return {}
            file.seek(size - end - length)
            return _TABLE.decode(file.read(length))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_all(paths: Collection[Path]) -> None:
    """In parallel: the system flushes concurrent requests together."""
    if len(paths) < _FEW:
        for path in paths:
            _sync(path)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_THREADS) as threads:
        for _ in threads.map(_sync, paths):
            pass  # raises the first failure


def make_folder(path: Path) -> None:
    """A folder with owner-only permissions, created durably with its parents."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True, mode=0o700)
    _sync(path.parent)
