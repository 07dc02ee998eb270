"""A disk that is full at each write in turn: `python -m tests.torture.full_disk DISK FOLDER PAGES`.

DISK is a small file system of its own, which is filled but for so many more pages each time; FOLDER lies elsewhere and
holds what must survive: the journal and the receivers' counts. Prints what it found, as JSON.
"""

import asyncio
import errno
import os
import random
import shutil
import sys
from pathlib import Path

import msgspec

from coilclaw.packets.errors import CoilclawError, StorageError
from tests.torture.chamber import await_child, child, nothing
from tests.torture.life import KINDS, Journal, Life, Place, come_to_rest, let_expire
from tests.torture.receivers import Receivers, received_file
from tests.torture.run import VARIANTS, make_template
from tests.torture.verdict import Verdict, compare

PAGE = 4096


class Found(msgspec.Struct):
    """What came of one try."""

    variant: str
    room: int
    failures: list[str]
    """What was said to whoever tried something."""
    verdict: Verdict


def fill(file: Path, room: int) -> None:
    """Leave only so many bytes."""
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        size = 0
        for piece in (1 << 20, 1 << 16, PAGE):
            try:
                while True:
                    size += os.write(fd, b"\0" * piece)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
        os.ftruncate(fd, max(0, size - room))
    finally:
        os.close(fd)


def once(disk: Path, folder: Path, variant: str, room: int, receivers: Receivers) -> Found:
    """Everything once on a disk with that much room, then again with enough."""
    name = f"full-{variant}-{room}"
    base = disk / name
    shutil.copytree(folder / "template", base, symlinks=True)
    place = Place(base, name, variant, receivers.port)
    place.journal = folder / f"{name}.journal"
    kinds = [kind for kind in KINDS if not (kind == "unsure" and variant == "neither")]
    doings = [(f"{name}.{number}", kind) for number, kind in enumerate(kinds)]

    def live() -> str:
        try:
            app, _ = place.open(nothing)
            life = Life(app, Journal(place.journal), random.Random(room), forgiven=(StorageError,))
        except CoilclawError as error:  # not even opened
            return msgspec.json.encode([str(error)]).decode()
        asyncio.run(life.run(doings))
        app.close()
        return msgspec.json.encode(life.failures).decode()

    def settle() -> str:
        app, clock = place.open(nothing)
        asyncio.run(come_to_rest(app, clock))
        asyncio.run(let_expire(app, clock))
        app.close()
        return msgspec.json.encode(compare(place, received_file(folder, name), over=True)).decode()

    filler = disk / "filler"
    fill(filler, room)
    _, said = await_child(*child(live))
    filler.unlink()
    receivers.rest()
    _, judged = await_child(*child(settle))
    shutil.rmtree(base)
    return Found(variant, room, msgspec.json.decode(said), msgspec.json.decode(judged, type=Verdict))


def main() -> None:
    """Give it a little more room each time, until nothing fails any more."""
    disk, folder = map(Path, sys.argv[1:3])
    pages = int(sys.argv[3])
    make_template(folder / "template")
    receivers = Receivers(folder)
    found: list[Found] = []
    try:
        while not found or (found[-1].failures and len(found) < 1000):
            variant = VARIANTS[len(found) % len(VARIANTS)]
            found.append(once(disk, folder, variant, len(found) * pages * PAGE, receivers))
    finally:
        receivers.close()
    sys.stdout.write(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    main()
