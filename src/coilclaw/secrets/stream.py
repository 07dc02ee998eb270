"""Redaction of text and bytes that arrive piece by piece."""

import codecs

from coilclaw.secrets.stream_engine import Layer, StreamEngine


class RedactingStream:
    """The output is safe to show, and equals the redacted whole text for every chunking of the input.

    Holds back at most the word being written and, after a significant name, what decides about its value: in ordinary
    text one word, never more than 16,384 characters per layer. Anything longer is redacted and swallowed, never leaked.
    """

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        self._sieves = [StreamEngine(layer) for layer in layers]

    def feed(self, text: str) -> str:
        """The part that can be shown now."""
        for sieve in self._sieves:
            text = sieve.feed(text)
        return text

    def close(self) -> str:
        """The rest. An unterminated private key stays hidden. The stream can be reused afterwards."""
        rest = ""
        for sieve in self._sieves:
            rest = sieve.close(rest)
        return rest


class RedactingBytes:
    """The same for bytes: UTF-8 is decoded across chunk borders, other bytes pass unchanged."""

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
