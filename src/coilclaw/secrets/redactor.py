"""The one redactor every sink passes: registered values first, known shapes second, header and field context third."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, BinaryIO

from coilclaw.packets.canonical import Json
from coilclaw.secrets.context import Context
from coilclaw.secrets.registered import Registered, refusal
from coilclaw.secrets.shapes import Shapes
from coilclaw.secrets.stream import RedactingBytes, RedactingStream
from coilclaw.secrets.stream_engine import Layer, sift

if TYPE_CHECKING:
    from coilclaw.secrets.terminal import RedactingTerminal

CHUNK = 65_536


class Redactor:
    """Replaces secrets by `[redacted:NAME]` or `[redacted:KIND]`. Idempotent."""

    refusal = staticmethod(refusal)

    def __init__(self, secrets: Iterable[tuple[str, str]] = ()) -> None:
        self._registered = Registered()
        self._known: tuple[Layer, Layer] = (Shapes(), Context())
        for name, value in secrets:
            self.register(name, value)

    def register(self, name: str, value: str) -> None:
        """Register a value, for running streams too. One with a reason in `refusal(value)` is ignored."""
        self._registered.add(name, value)

    def forget(self, value: str) -> None:
        """Stop looking for a value that opens nothing any more."""
        self._registered.drop(value)

    def text(self, text: str) -> str:
        """A whole text, redacted."""
        for layer in self._layers():
            text = sift(layer, text)
        return text

    def registered(self, text: str) -> str:
        """A whole text without the registered values; shapes and contexts are left alone."""
        return sift(self._registered, text) if self._registered else text

    def certain(self, text: str) -> str:
        """A whole text without registered values and known shapes; what only its context suggests is left alone."""
        return sift(self._known[0], self.registered(text))

    def value(self, value: Json) -> Json:
        """A JSON value, redacted throughout; keys are taken into account."""
        from coilclaw.secrets.fielded import fielded

        return fielded(value, self.text)

    def stream(self) -> RedactingStream:
        """A redactor for text that arrives piece by piece."""
        return RedactingStream((self._registered, *self._known))

    def byte_stream(self) -> RedactingBytes:
        """A redactor for bytes that arrive piece by piece."""
        return RedactingBytes(self.stream())

    def terminal(self) -> "RedactingTerminal":
        """A redactor for a terminal's output: typed echo passes at once."""
        from coilclaw.secrets.terminal import RedactingTerminal

        return RedactingTerminal(self, self._registered, *self._known)

    def filter(self, source: BinaryIO, sink: BinaryIO) -> None:
        """Copy a stream of bytes, redacted, in bounded memory, writing as soon as something is safe."""
        stream = self.byte_stream()
        read = getattr(source, "read1", source.read)
        while data := read(CHUNK):
            sink.write(stream.feed(data))
            sink.flush()
        sink.write(stream.close())
        sink.flush()

    def _layers(self) -> tuple[Layer, ...]:
        return (self._registered, *self._known) if self._registered else self._known
