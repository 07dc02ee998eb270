"""Spoken text: an answer while it is written, without secrets and without characters that hide others."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from coilclaw.packets.text import visible

if TYPE_CHECKING:
    from coilclaw.secrets.redactor import Redactor


class StreamedText:
    """What a model has said so far in its present round, as far as it is safe to show."""

    def __init__(self, redactor: "Redactor", say: Callable[[int, str], None]) -> None:
        self._stream = redactor.stream()
        self._say = say
        self._broken = False
        self.text = ""

    def __call__(self, piece: str) -> None:
        """Take the next piece and say what of it can be shown, with the place where it belongs."""
        self._take(lambda: self._stream.feed(piece))

    def finish(self) -> None:
        """Say what was held back."""
        self._take(self._stream.close)

    def begin_again(self) -> None:
        """The model is asked once more: what it says from now on stands by itself, from place 0 on."""
        self.finish()
        self.text = ""

    def _take(self, redacted: Callable[[], str]) -> None:
        if self._broken:
            return
        try:
            shown = visible(redacted())
        except Exception:  # fail closed: what cannot be redacted is not said
            self._broken = True
            return
        if shown:
            offset = len(self.text)
            self.text += shown
            self._say(offset, shown)
