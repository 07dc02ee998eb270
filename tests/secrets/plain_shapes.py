"""The layer of known shapes, written plainly and slowly: every shape is matched as a whole at every place."""

import re

from coilclaw.secrets.encodings import next_line
from coilclaw.secrets.labels import mark
from coilclaw.secrets.shape_table import SHAPES, Shape
from coilclaw.secrets.shapes import Shapes
from coilclaw.secrets.stream_engine import Hit, Window
from coilclaw.secrets.tokens import _ended, random_piece
from coilclaw.secrets.webhooks import is_anchor

LONGEST = 2_048
RUN = re.compile(r"[A-Za-z0-9_.:/=+$~-]{0,2048}")
RUN_END = re.compile(r"(?=[^A-Za-z0-9_.=+/-])")
STARTS = re.compile(r"(?<![A-Za-z0-9])(?=[\w$~])|(?=/)", re.ASCII)
ROWS = (
    Shape("S", "sendgrid", r"SG\.[\w-]{16,}(?:\.[\w-]{16,})?"),
    Shape(
        "e", "jwt", r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*)?|eyJ[\w-]{8,}\.[\w-]{0,800}\.[\w-]{8,}(?:\.[\w-]{8,}){0,2}"
    ),
    *SHAPES,
)


class PlainShapes(Shapes):
    """Decides as the shipped layer must, by reading everything again for every anchor."""

    def __init__(self) -> None:
        super().__init__()
        self._plain: dict[str, re.Pattern[str]] = {}

    def decide(self, window: Window, at: int) -> Hit | None:
        first = window.text[at]
        if first == "P" or (first == "-" and window.text.startswith(("-----", "---- "), at)):
            return super().decide(window, at)
        if is_anchor(window.text, at):
            return super().decide(window, at)
        end = window.run(RUN, at)
        dashes = window.text.find("----", at, end)
        end = dashes if dashes > 0 else end
        starts = self._places(window, at)
        found = self._find(window.text, starts, at, end, sure=False)
        if found is None:
            return self._halved(window, starts, at, end)
        start, stop, shape = found
        if stop >= at + LONGEST:
            return Hit(start, stop, mark(shape.kind), RUN_END)
        return Hit(start, _ended(window, stop, shape), mark(shape.kind))

    def _places(self, window: Window, at: int) -> list[int]:
        if window.text[at] in "$AESLG":
            return [at]
        low = window.back(Shapes.word, at, 48)
        found = [match.start() for match in STARTS.finditer(window.text, low, at + 1)]
        return found[-(8 if window.text[at] in ".~:" else 4) :]

    def _find(self, text: str, starts: list[int], at: int, end: int, *, sure: bool) -> tuple[int, int, Shape] | None:
        for place in starts:
            found = self._all(text[place]).match(text, place, end)
            if found is None:
                continue
            told = [name for name, group in found.groupdict().items() if group is not None]
            shape = ROWS[next(int(name[1:]) for name in told if re.fullmatch(r"k\d+", name))]
            start = found.start(next((name for name in told if name[0] == "s"), 0))
            if found.end() > at and not (sure and shape.mixed) and telling(text[start : found.end()][4:], shape):
                return start, found.end(), shape
        return None

    def _all(self, first: str) -> re.Pattern[str]:
        if first not in self._plain:
            rows = (
                f"(?P<k{number}>{shape.pattern})"
                for number, shape in enumerate(ROWS)
                if first in shape.first or shape.first == "*"
            )
            self._plain[first] = re.compile("|".join(rows), re.ASCII)
        return self._plain[first]

    def _halved(self, window: Window, starts: list[int], at: int, end: int) -> Hit | None:
        if end > at + 1 and window.text[end - 1] == "=" and window.char(end) in ("\r", "\n"):
            end -= 1
        after = next_line(window, end) if starts else end
        if after == end:
            return None
        stop = window.run(re.compile(r"[A-Za-z0-9_.:/=+$~-]{0,256}"), after)
        low = starts[0]
        joined = window.text[low:end] + window.text[after:stop]
        sure = not random_piece(window.text[after : min(stop, after + 64)])
        whole = self._find(joined, [start - low for start in starts], at - low, len(joined), sure=sure)
        if whole is None or whole[1] <= end - low:
            return None
        return Hit(low + whole[0], _ended(window, after + whole[1] - (end - low), whole[2]), mark(whole[2].kind))


def telling(body: str, shape: Shape) -> bool:
    """Whether a body is more than a placeholder and, where the prefix is not telling, looks random."""
    if len(set(body)) < 5 or re.search(r"(.)\1{7}", body):
        return False
    letters, digits = sum(map(str.isalpha, body)), sum(map(str.isdecimal, body))
    return not shape.mixed or (digits >= 2 and letters >= 2 and len(set(body)) >= 8 and digits * 20 >= len(body))
