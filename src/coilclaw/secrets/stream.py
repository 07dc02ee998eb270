"""Redaction of text and bytes that arrive piece by piece."""

import codecs

from coilclaw.secrets.stream_engine import Layer, StreamEngine


class RedactingStream:
    """What comes out is safe to show, and equal to the redacted whole for every way of cutting the input.

    Held back is at most the word being written and, from a telling name on, what decides about its value: in ordinary
    text one word, never more than 16,384 characters per layer. What is longer is redacted and swallowed, never leaked.
    """

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        self._sieves = [StreamEngine(layer) for layer in layers]

    def feed(self, text: str) -> str:
        """The part that can be shown now."""
        for sieve in self._sieves:
            text = sieve.feed(text)
        return text

    def close(self) -> str:
        """The rest. A private key that never ended stays hidden. The stream may be used again from the start."""
        rest = ""
        for sieve in self._sieves:
            rest = sieve.close(rest)
        return rest


class RedactingBytes:
    """The same for bytes: UTF-8 is decoded across chunk borders, every other byte passes unharmed."""

    def __init__(self, stream: RedactingStream) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def feed(self, data: bytes) -> bytes:
        """The part that can be shown now."""
        return self._stream.feed(self._decoder.decode(data)).encode("utf-8", "surrogateescape")

    def close(self) -> bytes:
        """The rest."""
        rest = self._stream.feed(self._decoder.decode(b"", final=True)) + self._stream.close()
        self._decoder.reset()
        return rest.encode("utf-8", "surrogateescape")
