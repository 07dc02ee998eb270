"""Where any of many short patterns may stand in a text, found in a few passes that run in C.

A pattern is a row of character sets, one for each of its first characters; it belongs to one of eight buckets, a bit
each. Translating the text by a table says of every character for which buckets it may be the first one, by another for
which it may be the second, and so on. As long integers, these are shifted over each other and joined by AND: what is
left stands where a pattern of that bucket may begin. So the cost does not depend on how many patterns there are.
It may find too much, because the patterns of a bucket are mixed; whoever asks looks closer there.
"""

from collections.abc import Iterable

Sets = tuple[str, ...]
"""The characters that may stand at each place, ASCII."""
FOREIGN = "?"
"""How any other character is seen."""
_SOME = bytes(min(value, 1) for value in range(256))


class Fingerprints:
    """Patterns by bucket. Those shorter than the longest may be followed by anything, also by the end."""

    def __init__(self, rows: Iterable[tuple[int, Sets]]) -> None:
        found = list(rows)
        self._tables: list[bytes] = []
        for place in range(max((len(sets) for _, sets in found), default=0)):
            table = bytearray(256)
            for bucket, sets in found:
                for code in map(ord, sets[place]) if place < len(sets) else range(256):
                    table[code] |= 1 << bucket
            self._tables.append(bytes(table))

    def find(self, text: str, at: int = 0) -> list[tuple[int, int]]:
        """Where a pattern may begin from `at` on, each with its buckets as bits."""
        if not self._tables:
            return []
        data = (text[at:] if at else text).encode("ascii", "replace") + b"\n" * len(self._tables)
        left = int.from_bytes(data.translate(self._tables[0]), "little")
        for place, table in enumerate(self._tables[1:], 1):
            left &= int.from_bytes(data.translate(table), "little") >> (8 * place)
        if not left:
            return []
        buckets = left.to_bytes(len(data), "little")
        marks = buckets.translate(_SOME)
        found: list[tuple[int, int]] = []
        place = marks.find(1)
        while place >= 0:
            found.append((at + place, buckets[place]))
            place = marks.find(1, place + 1)
        return found


def either_case(text: str) -> str:
    """These letters, small and capital."""
    return text.lower() + text.upper()
