"""Which token an anchor belongs to: where it starts and ends, whatever line breaks fall into it."""

import re

from coilclaw.secrets.encodings import next_line
from coilclaw.secrets.labels import mark
from coilclaw.secrets.scan_cache import Page
from coilclaw.secrets.shape_table import Shape, Table, open_ended
from coilclaw.secrets.shapes import WORD
from coilclaw.secrets.stream_engine import Hit, More, Window
from coilclaw.secrets.webhooks import is_anchor, webhook

_LONGEST = 2_048
_RUN = re.compile(r"[A-Za-z0-9_.:/=+$~-]*")
_WAIT = re.compile(r"[A-Za-z0-9_.:/=+$~-]{0,2560}")
"""In a run that goes on and on the anchors of some more of it are decided together."""
_RUN_END = re.compile(r"(?=[^A-Za-z0-9_.=+/-])")
_PIECE = re.compile(r"[A-Za-z0-9_.+/=~-]{0,512}")
_CHANGES = re.compile(r"(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])|(?<=[a-z])(?=[A-Z])")
_DATE = re.compile(r"\d{4}-?\d\d-?\d\d(?:T|\Z)")
_MOST_LINES = 64
_NEXT = re.compile(r"(?:[A-Za-z0-9_.:/=+$~-]*)")  # the same again, for the next line: a page keeps one run of each
_HALF = 256
_TOLD = 64
_STARTS = re.compile(r"(?<![A-Za-z0-9])(?=[\w$~])|(?=/)", re.ASCII)
_ALNUM = re.compile(r"[A-Za-z0-9]{0,2048}")
_BEFORE = 48


class TokenFinder:
    """Decides anchors of the known shapes."""

    def __init__(self) -> None:
        self._table = Table()

    def decide(self, window: Window, at: int) -> Hit | None:
        """The shape this anchor belongs to."""
        first = window.text[at]
        if first == "P" or (first == "-" and window.text.startswith(("-----", "---- "), at)):
            from coilclaw.secrets.keyblock import key_block  # rare, and its patterns cost start-up time

            return key_block(window, at)
        if is_anchor(window.text, at):  # no other shape has such an anchor
            hook = webhook(window, at)
            return hook and hook._replace(end=_gone_on(window, hook.end))
        page = window.page
        end = min(page.run_end(_RUN, at), at + _LONGEST)
        if end >= len(window.text) and not window.final:
            raise More(_WAIT, at)
        dashes = page.dashes(at)
        end = dashes if 0 < dashes <= end - 4 else end  # a key block may follow without a break
        starts = _starts(window, at)
        found = self._search(page, starts, at, end)
        if found is None:
            return self._split(window, starts, at, end)
        start, stop, shape = found
        if stop >= at + _LONGEST:
            return Hit(start, stop, mark(shape.kind), _RUN_END)
        return Hit(start, _ended(window, stop, shape), mark(shape.kind))

    def _search(
        self, page: Page, starts: list[int], at: int, end: int, *, sure: bool = False
    ) -> tuple[int, int, Shape] | None:
        """The match that holds the anchor, as (start, end, shape); `sure` leaves out shapes that chance makes too."""
        for place in starts:
            found = self._table.match(page, place, end)
            if found:
                start, stop, shape = found
                if stop > at and not (sure and shape.mixed) and _telling(page, start, stop, shape):
                    return start, stop, shape
        return None

    def _split(self, window: Window, starts: list[int], at: int, end: int) -> Hit | None:
        """A token that a line break cut in two: only together do the halves have the shape."""
        if end > at + 1 and window.text[end - 1] == "=" and window.char(end) in ("\r", "\n"):
            end -= 1  # a soft break of quoted-printable
        after = next_line(window, end) if starts else end
        if after == end:
            return None
        stop = min(window.page.run_end(_NEXT, after), after + _HALF)
        if stop >= len(window.text) and not window.final:
            raise More
        page, low = window.page.halves(max(0, end - _LONGEST - _BEFORE), end, after, stop)
        size = end - low
        sure = not random_piece(window.text[after : min(stop, after + _TOLD)])
        whole = self._search(page, [start - low for start in starts], at - low, size + stop - after, sure=sure)
        if whole is None or whole[1] <= size:
            return None
        return Hit(low + whole[0], _ended(window, after + whole[1] - size, whole[2]), mark(whole[2].kind))


def _starts(window: Window, at: int) -> list[int]:
    """Where the token that holds this anchor may start: the few word starts before it, nearest last."""
    first = window.text[at]
    if first in "$AESLG":
        return [at]
    low = window.back(WORD, at, _BEFORE)
    return window.page.points(_STARTS, low, at)[-(8 if first in ".~:" else 4) :]


def _ended(window: Window, stop: int, shape: Shape) -> int:
    """Where a token really ends: with what clings to it and, if it may go on, with its pieces on the next lines."""
    stop = _glued(window, stop)
    return _gone_on(window, stop) if open_ended(shape) else stop


def _gone_on(window: Window, stop: int) -> int:
    """Where a token that reaches the end of its line ends on a later one: as long as what follows looks like more."""
    for _ in range(_MOST_LINES):
        after = next_line(window, stop)
        if after == stop:
            break
        end = window.run(_PIECE, after)
        if not random_piece(window.text[after:end]) or window.char(end) in (":", "=", "(", "@"):
            break
        stop = end
    return stop


def random_piece(text: str) -> bool:
    """Whether the beginning of a line is nobody's word, name, number or date: letters and digits all mixed up."""
    bare = text.rstrip("=.")
    return len(bare) >= 8 and "=" not in bare and len(_CHANGES.findall(bare)) >= 2 and not _DATE.match(bare)


def _glued(window: Window, end: int) -> int:
    """What clings to a token goes with it: it may belong to it, or be another one."""
    return window.run(_ALNUM, end)


def _telling(page: Page, start: int, stop: int, shape: Shape) -> bool:
    """Whether the body is more than a placeholder (xxxxxxxx) and, for a mixed shape, more than words and separators."""
    start = min(start + 4, stop)
    tally = page.tally(start, stop)
    if not tally.varied(start, stop, 5) or tally.repeats(start, stop):
        return False
    if not shape.mixed:
        return True
    digits = tally.digits(start, stop)
    enough = digits >= 2 and digits * 20 >= stop - start and tally.letters(start, stop) >= 2
    return enough and tally.varied(start, stop, 8)
