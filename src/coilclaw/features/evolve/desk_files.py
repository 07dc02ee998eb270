"""Files in the folder between CoilClaw and the watcher: what is asked of either, each written whole or not at all."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw.features.evolve.places import places_of
from coilclaw.packets.ids import new_id

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime


def ask_desk(app: "Runtime", asked: dict[str, str | bool]) -> None:
    """Leave something at the desk, as the watcher does."""
    put_file(places_of(app.home.root).desk, f"ask-{new_id('note', app.clock())}.json", json.dumps(asked).encode())


def order(app: "Runtime", wanted: dict[str, str]) -> None:
    """Tell the watcher what the owner wants; it does it at once, or when it runs again."""
    put_file(places_of(app.home.root).desk, f"order-{new_id('order', app.clock())}.json", json.dumps(wanted).encode())


def put_file(folder: Path, name: str, data: bytes) -> None:
    """Write a file of this folder, durably, by rename."""
    fresh = folder / f".{name}.{os.getpid()}"
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(folder / name)
