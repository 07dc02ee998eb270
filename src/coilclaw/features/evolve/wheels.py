"""The wheelhouse: packages that the owner picked for the agent, copied into the home and known by one digest.

It is that of what `LC_ALL=C sha256sum *.whl` prints, so that the owner can work it out again.
"""

import asyncio
import hashlib
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from coilclaw.features.evolve.desk_files import put_file
from coilclaw.features.evolve.init import needed
from coilclaw.features.evolve.places import EvolvePlaces
from coilclaw.ledger.audit import add_event
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import UsageError
from coilclaw.packets.text import one_line
from coilclaw.sandbox.moving import sync_folder

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

AT = "/mnt/wheels"
"""Where the box has them."""
MOST_BYTES = 2 << 30
_MOST = 2000
_BLOCK = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]{0,240}\.whl")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_NEW = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC


class Wheelhouse(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which wheels are in force."""

    folder: Annotated[str, msgspec.Meta(pattern="^of-[A-Za-z0-9_]+$")]
    digest: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    wheels: int
    bytes: int


class _NotWheels(Exception):
    """Why this is no folder of wheels."""


def admit_wheels(folder: Path) -> None:
    """Raise a UsageError unless this folder can be taken. Nothing is read of the wheels."""
    try:
        place = os.open(folder, _FOLDER)
        try:
            _names(place)
        finally:
            os.close(place)
    except (OSError, _NotWheels) as error:
        raise _refusal(folder, error) from error


async def take_wheels(app: "Runtime", folder: Path | None) -> Wheelhouse | None:
    """Copy a folder of wheels and let the agent have them from its next start on; None takes away what it has.

    The copy is whole and on the disk before the record changes, so at any moment the old or the new is in force.
    """
    places = needed(app)
    taken = None if folder is None else await asyncio.to_thread(_copied, places, folder)
    about: dict[str, Json] = {} if taken is None else {"sha256": taken.digest, "wheels": taken.wheels}
    await app.db.write(lambda tx: add_event(tx, app.clock, "evolve_wheels", "evolve", about))
    await asyncio.to_thread(_put_in_force, places, taken)
    return taken


def checked_wheels(places: EvolvePlaces) -> Wheelhouse | None:
    """The wheels that the agent was given, read again and found the same; None without any. A UsageError otherwise."""
    pinned = pinned_wheels(places)
    if pinned is None:
        return None
    try:
        digest, _, _ = _read(places.wheels / pinned.folder)
    except (OSError, _NotWheels) as error:
        raise _changed(_why(error)) from error
    if digest != pinned.digest:
        raise _changed(f"their digest is {digest[:12]}, not {pinned.digest[:12]}")
    return pinned


def pinned_wheels(places: EvolvePlaces) -> Wheelhouse | None:
    """The wheels that the agent was given, by the record of them alone."""
    try:
        return msgspec.json.decode(places.pinned.read_bytes(), type=Wheelhouse)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise _changed("the record of them cannot be read") from error


def _changed(why: str) -> UsageError:
    return UsageError(
        f"the agent's wheels are not those that you gave it: {why}.",
        remedy="Give them again: `coilclaw evolve wheels FOLDER`. To run it without: `coilclaw evolve wheels --off`.",
    )


def _refusal(folder: Path, error: Exception) -> UsageError:
    return UsageError(
        f"{one_line(str(folder))} cannot be taken: {_why(error)}.",
        remedy="It must have wheels and nothing else, as `pip download --only-binary :all: --dest FOLDER` makes it.",
    )


def _why(error: Exception) -> str:
    return (error.strerror or "it cannot be read") if isinstance(error, OSError) else str(error)


# Copying


def _copied(places: EvolvePlaces, folder: Path) -> Wheelhouse:
    places.wheels.mkdir(mode=0o700, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="of-", dir=places.wheels))
    try:
        digest, wheels, size = _read(folder, made)
        sync_folder(made)
        sync_folder(places.wheels)
    except (OSError, _NotWheels) as error:
        shutil.rmtree(made, ignore_errors=True)
        raise _refusal(folder, error) from error
    return Wheelhouse(made.name, digest, wheels, size)


def _put_in_force(places: EvolvePlaces, taken: Wheelhouse | None) -> None:
    if taken is None:
        places.pinned.unlink(missing_ok=True)
    else:
        put_file(places.root, places.pinned.name, msgspec.json.encode(taken))
    sync_folder(places.root)
    for other in places.wheels.iterdir() if places.wheels.is_dir() else ():
        if taken is None or other.name != taken.folder:
            other.unlink() if other.is_symlink() or not other.is_dir() else shutil.rmtree(other)


# Reading


def _read(folder: Path, copy: Path | None = None) -> tuple[str, int, int]:
    """Digest, number and size of a folder of wheels; they are copied on the way, if they should be."""
    whole, size = hashlib.sha256(), 0
    place = os.open(folder, _FOLDER)
    try:
        names = _names(place)
        for name in names:
            digest, length = _read_wheel(place, name, copy, MOST_BYTES - size)
            whole.update(f"{digest}  {name}\n".encode())
            size += length
    finally:
        os.close(place)
    return whole.hexdigest(), len(names), size


def _names(place: int) -> list[str]:
    """The names of wheels in a folder that has nothing else."""
    names, size = sorted(os.listdir(place)), 0
    if not names:
        raise _NotWheels("there is no wheel in it")
    if len(names) > _MOST:
        raise _NotWheels(f"there are more than {_MOST} files in it")
    for name in names:
        shown = one_line(name)[:100]
        if not _NAME.fullmatch(name):
            raise _NotWheels(f"{shown} is not a valid name of a wheel")
        facts = os.stat(name, dir_fd=place, follow_symlinks=False)
        if stat.S_ISLNK(facts.st_mode):
            raise _NotWheels(f"{shown} is a link")
        if not stat.S_ISREG(facts.st_mode):
            raise _NotWheels(f"{shown} is not a regular file")
        size += facts.st_size
    _limit(size, MOST_BYTES)
    return names


def _read_wheel(place: int, name: str, copy: Path | None, room: int) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    target = Path(os.devnull) if copy is None else copy / name
    with (
        os.fdopen(os.open(name, _FILE, dir_fd=place), "rb") as wheel,
        os.fdopen(os.open(target, _NEW, 0o600), "wb") as out,
    ):
        if not stat.S_ISREG(os.fstat(wheel.fileno()).st_mode):
            raise _NotWheels(f"{name} is not a regular file")
        while block := wheel.read(_BLOCK):
            size += len(block)
            _limit(size, room)
            digest.update(block)
            out.write(block)
        if copy is not None:
            out.flush()
            os.fsync(out.fileno())
    return digest.hexdigest(), size


def _limit(size: int, most: int) -> None:
    if size > most:
        raise _NotWheels(f"it has more than {MOST_BYTES >> 30} GB")
