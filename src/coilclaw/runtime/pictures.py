"""Reading again a picture that a call has read before: the same bytes, or none."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from coilclaw.gate.paths import look_at
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.chat import Image
from coilclaw.packets.pictures import MAX_PICTURE, PictureRef
from coilclaw.sandbox.files import read_existing

if TYPE_CHECKING:
    from coilclaw.gate.turn import Turn
    from coilclaw.runtime.runtime import Runtime

GONE = "[The picture cannot be shown: the file has changed since, or is gone.]"
SECRET = "[The picture cannot be shown: a secret is in it.]"  # noqa: S105 - not one


def picture_reader(app: "Runtime", turn: "Turn") -> Callable[[PictureRef], Image | str]:
    """A reader of pictures in a turn's folder. The gate let a call read exactly these bytes: no others are shown."""
    root = app.roots.of_turn(turn)
    fault, places, folder = root.fault(), root.places, root.folder

    def read(ref: PictureRef) -> Image | str:
        fact = look_at(ref.path, places, write=False)
        if fault or fact.fault or fact.in_home or fact.forbidden_by or fact.relative != ref.path:
            return GONE
        data = read_existing(folder, ref.path, MAX_PICTURE)
        if data is None or sha256_hex(data) != ref.sha256:
            return GONE
        text = data.decode("latin-1")  # a part of a picture cannot be left out
        if app.redactor.registered(text) != text:
            return SECRET
        return Image(data=data, media_type=ref.media_type)

    return read
