"""The recording of a session's terminal: redacted output in the order it came, in one append-only file.

A frame is a head and its data. Heads carry everything that a reader needs to go on after a crash: the time,
the raw offset after it (where the follower continues), and the offset of the redacted output (what viewers count in).
A torn last frame is cut off at opening. When the file outgrows its cap, the older half is dropped and a gap says so.
"""

import hashlib
import os
import re
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias, cast

import msgspec

from coilclaw.lib.terminal_sequences import Splitter

_HEAD = struct.Struct(">BIIQQ")  # kind, milliseconds since the start, size, raw offset after, offset before
_MAGIC = b"coilclaw recording 1\n"
LARGEST_FRAME = 64 << 10
_LINE_END = re.compile(r"\r*\n\r*")

FrameKind: TypeAlias = Literal["output", "gap", "resize"]
_KINDS: tuple[FrameKind, ...] = ("output", "gap", "resize")


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a recording."""

    kind: FrameKind
    ms: int
    """Since the recording began."""
    raw_offset: int
    """How much raw output came before the next frame."""
    offset: int
    """How much redacted output came before this frame. It counts over gaps too."""
    data: bytes
    """Output; of a resize `COLUMNSxROWS`; of a gap, how many bytes of raw output are missing."""


class PlainText:
    """Output as plain text, piece by piece: without control sequences, and with plain line ends."""

    def __init__(self) -> None:
        self._splitter = Splitter()
        self._held = ""  # carriage returns whose meaning the next piece tells
        self._fresh = False  # a line was just begun

    def feed(self, data: bytes) -> str:
        """The text of a piece."""
        found = self._splitter.feed(data.decode("utf-8", "replace"))
        said = self._held + "".join(piece for piece in found if isinstance(piece, str))
        text = said.rstrip("\r")
        self._held = said[len(text) :]
        if self._fresh:
            text = text.lstrip("\r")
        text = _LINE_END.sub("\n", text).replace("\r", "\n")
        self._fresh = text.endswith("\n") if text else self._fresh
        return text


class Recorded:
    """What was recorded of a session, for reading alone: somebody else may be writing it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def frames(self) -> Iterator[Frame]:
        """Every frame, oldest first."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            yield from (frame for frame, _ in _frames(file))

    def text(self) -> str:
        """The output as plain text, without control sequences."""
        plain = PlainText()
        pieces: list[str] = []
        for frame in self.frames():
            if frame.kind == "gap":
                plain = PlainText()
                pieces.append(f"\n[{frame.data.decode()} bytes missing]\n")
            elif frame.kind == "output":
                pieces.append(plain.feed(frame.data))
        return "".join(pieces)

    def asciicast(self) -> Iterator[bytes]:
        """The recording as an asciicast (version 2), line by line."""
        columns, rows = 80, 24
        for frame in self.frames():
            if frame.kind == "resize":
                columns, rows = map(int, frame.data.split(b"x"))
                break
        yield msgspec.json.encode({"version": 2, "width": columns, "height": rows}) + b"\n"
        for frame in self.frames():
            said = frame.data.decode("utf-8", "replace")
            if frame.kind == "gap":
                said = f"\r\n[{said} bytes missing]\r\n"
            yield msgspec.json.encode((frame.ms / 1000, "r" if frame.kind == "resize" else "o", said)) + b"\n"

    def digest(self) -> str:
        """SHA-256 of the file; empty if nothing was recorded."""
        try:
            with self._path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            return ""


class Recording(Recorded):
    """The recording of one session, open for appending."""

    def __init__(self, path: Path, *, most: int) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        super().__init__(path)
        self._most = max(most, 4 * LARGEST_FRAME)
        self._file = _opened(path)
        self.raw_offset: int = 0
        """The follower goes on here."""
        self.offset = 0
        """How much redacted output was recorded, dropped or not."""
        self.ms = 0
        """When the last frame was added."""
        self.flushed: bool = False
        """Whether the last output came of a pause, and nothing was held back after it."""
        self.failed = False
        """Whether the last frame could not be written."""
        self.size = self._recover()
        self._recorded = self.raw_offset
        self._halving: tuple[threading.Thread, int] | None = None
        """Writes the newer half to a new file; and how much of the file it knows."""
        self._whole = False  # whether it has

    def output(self, ms: int, raw_offset: int, data: bytes) -> None:
        """Add output that came until `raw_offset`; data may be empty if all of it is held back."""
        for at in range(0, len(data), LARGEST_FRAME):
            piece = data[at : at + LARGEST_FRAME]
            self._append("output", ms, self.raw_offset if at + LARGEST_FRAME < len(data) else raw_offset, piece)
        self.raw_offset = max(self.raw_offset, raw_offset)

    def gap(self, ms: int, raw_offset: int) -> None:
        """Raw output is missing up to here."""
        self._append("gap", ms, raw_offset, str(max(0, raw_offset - self.raw_offset)).encode())

    def resize(self, ms: int, rows: int, columns: int) -> None:
        """The terminal has another size now."""
        self._append("resize", ms, self.raw_offset, f"{columns}x{rows}".encode())

    def tail(self, most: int) -> tuple[int, bytes]:
        """The last bytes of output, and their offset."""
        kept = [
            frame.data
            for frame in self.frames()
            if frame.kind == "output" and frame.offset + len(frame.data) > self.offset - most
        ]
        whole = b"".join(kept)[-most:] if most else b""
        return self.offset - len(whole), whole

    def sync(self) -> None:
        """Write through to the disk."""
        self._swap(wait=True)
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """No more frames."""
        self._swap(wait=True)
        self._file.close()

    def _append(self, kind: FrameKind, ms: int, raw_offset: int, data: bytes) -> None:
        self.ms = max(self.ms, min(ms, 0xFFFFFFFF))  # the clock may jump
        frame = Frame(kind=kind, ms=self.ms, raw_offset=raw_offset, offset=self.offset, data=data)
        self.flushed = kind == "output" and raw_offset == self.raw_offset
        self.raw_offset = raw_offset
        if kind == "output":
            self.offset += len(data)
        if self._written(frame):
            self._recorded = raw_offset
        if self._halving is not None:
            self._swap(wait=self.size > 2 * self._most)
        elif self.size > self._most:
            self._drop_older_half()

    def _written(self, frame: Frame) -> bool:
        """Write a frame as a whole. On a full disk the session goes on without its recording, and a gap says so."""
        packed = _packed(frame)
        if self.failed:
            gap = {"kind": "gap", "data": str(max(0, frame.raw_offset - self._recorded)).encode()}
            packed = _packed(msgspec.structs.replace(frame, **gap)) + packed
        try:  # unbuffered: one write, so only the last frame can be torn
            self.failed = self._file.write(packed) != len(packed)
        except OSError:
            self.failed = True
        if self.failed:
            with suppress(OSError):
                self._file.truncate(self.size)
                self._file.seek(self.size)
            return False
        self.size += len(packed)
        return True

    def _recover(self) -> int:
        """Read to the end of the last whole frame, and cut off what follows."""
        end = len(_MAGIC)
        with self._path.open("rb") as file:
            for frame, after in _frames(file):
                self.flushed = frame.kind == "output" and frame.raw_offset == self.raw_offset
                end, self.raw_offset, self.ms = after, frame.raw_offset, frame.ms
                self.offset = frame.offset + (len(frame.data) if frame.kind == "output" else 0)
        self._file.truncate(end)
        self._file.seek(end)
        return end

    def _drop_older_half(self) -> None:
        """Have the newer half written to a new file, while this one is written on: it may take long."""
        known = self.size
        thread = threading.Thread(target=self._halve, args=(known,), name="recording", daemon=True)
        self._halving = thread, known
        thread.start()

    def _halve(self, known: int) -> None:
        dropped: Frame | None = None
        resized: Frame | None = None
        with suppress(OSError), self._path.open("rb") as file, _opened(self._spare) as kept:
            for frame, after in _frames(file):
                if after <= known - self._most // 2:
                    dropped, resized = frame, frame if frame.kind == "resize" else resized
                    continue
                if dropped is not None:
                    first = msgspec.structs.replace(
                        dropped, kind="gap", offset=frame.offset, data=str(dropped.raw_offset).encode()
                    )
                    kept.write(_packed(first))
                    if resized is not None:
                        kept.write(
                            _packed(msgspec.structs.replace(resized, raw_offset=first.raw_offset, offset=frame.offset))
                        )
                    dropped = None
                kept.write(_packed(frame))
                if after >= known:
                    break
            os.fsync(kept.fileno())
            self._whole = True

    def _swap(self, *, wait: bool) -> None:
        """Go on in the new file, once it is ready, with what was added meanwhile. A crash leaves one or the other."""
        if self._halving is None or (self._halving[0].is_alive() and not wait):
            return
        thread, known = self._halving
        thread.join()
        self._halving = None
        if not self._whole:  # a full disk: the old file goes on growing until there is room
            return
        self._whole = False
        with suppress(OSError), _appending(self._spare) as kept, self._path.open("rb") as file:
            file.seek(known)
            added = file.read()
            if kept.write(added) != len(added):
                return
            self._spare.replace(self._path)
            self._file.close()
            self._file = _opened(self._path)
            self.size = self._file.seek(0, os.SEEK_END)

    @property
    def _spare(self) -> Path:
        return self._path.with_name(self._path.name + ".new")


def _appending(path: Path) -> BinaryIO:
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
    return os.fdopen(descriptor, "r+b", buffering=0)


def _opened(path: Path) -> BinaryIO:
    """Open for appending, readable by the owner alone; a foreign or broken beginning is replaced."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    file = os.fdopen(descriptor, "r+b", buffering=0)
    if path.name.endswith(".new") or file.read(len(_MAGIC)) != _MAGIC:
        file.seek(0)
        file.truncate()
        file.write(_MAGIC)
    return file


def _packed(frame: Frame) -> bytes:
    head = (_KINDS.index(frame.kind), frame.ms, len(frame.data), frame.raw_offset, frame.offset)
    return _HEAD.pack(*head) + frame.data


def _frames(file: BinaryIO) -> Iterator[tuple[Frame, int]]:
    """The whole frames of a file, each with where it ends; stops at the first that is not one."""
    if file.read(len(_MAGIC)) != _MAGIC:
        return
    end = len(_MAGIC)
    while len(head := file.read(_HEAD.size)) == _HEAD.size:
        number, ms, size, raw_offset, offset = cast("tuple[int, int, int, int, int]", _HEAD.unpack(head))
        if number >= len(_KINDS) or size > LARGEST_FRAME:
            return
        data = file.read(size)
        if len(data) < size:
            return
        end += _HEAD.size + size
        yield Frame(kind=_KINDS[number], ms=ms, raw_offset=raw_offset, offset=offset, data=data), end
