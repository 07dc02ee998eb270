"""Server-sent events, fed in chunks of any size."""


class EventReader:
    """Takes the bytes of an event stream as they arrive and returns the data of each complete event."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._after_return = False
        self._first_line = True
        self._id = b""
        self.last_id = b""
        """Of the last complete event that has one: where a broken stream can be resumed."""
        self.retry_ms: int | None = None
        """How long the server asks to wait before that."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that this chunk completes."""
        if not chunk:
            return []
        if self._after_return and chunk.startswith(b"\n"):  # CRLF was split between two chunks
            chunk = chunk[1:]
            self._after_return = False
            if not chunk:
                return []
        self._after_return = chunk.endswith(b"\r")
        *ended, rest = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        events: list[bytes] = []
        for piece in ended:
            self._line.append(piece)
            event = self._end_line()
            if event is not None:
                events.append(event)
        if rest:
            self._line.append(rest)
        return events

    def close(self) -> bytes | None:
        """The data of an unterminated last event: many servers omit the final blank line."""
        if self._line:
            self._end_line()
        return self._take()

    def _end_line(self) -> bytes | None:
        line = b"".join(self._line)
        self._line.clear()
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            self.last_id = self._id
            return self._take()
        name, _, value = line.partition(b":")  # comments have an empty name
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"id" and b"\0" not in value:
            self._id = value
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self.retry_ms = int(value)
        return None

    def _take(self) -> bytes | None:
        if not self._data:
            return None
        event = b"\n".join(self._data)
        self._data.clear()
        return event
