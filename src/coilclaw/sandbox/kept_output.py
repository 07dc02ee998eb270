"""Keeps the beginning and the end of an output of any length."""

from coilclaw.secrets.cuts import after_gap, before_gap


class KeptOutput:
    """Keeps at most so many bytes; the omitted middle is counted and mentioned."""

    def __init__(self, most: int) -> None:
        self._half = max(1, most // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._gone = 0

    def add(self, data: bytes) -> None:
        """Add output."""
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail += data
        surplus = len(self._tail) - self._half
        if surplus > self._half:  # only occasionally, so that each byte is moved about once
            del self._tail[:surplus]
            self._gone += surplus

    def whole(self) -> bytes:
        """Everything, or the beginning and the end with a line between them that says how much is omitted."""
        surplus = max(0, len(self._tail) - self._half)
        if not surplus + self._gone:
            return bytes(self._head + self._tail)
        head, tail = before_gap(bytes(self._head)), after_gap(bytes(self._tail[surplus:]))
        left_out = self._gone + len(self._head) + len(self._tail) - len(head) - len(tail)
        return b"%s\n[%d bytes left out]\n%s" % (head.rstrip(b"\n"), left_out, tail)
