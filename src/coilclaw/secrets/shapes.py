"""Second layer: tokens whose shape tells what they are, private key blocks, and webhook addresses that are keys.

Cheap regexes find anchors (a rare character of a known prefix with a long run after it); only there the table is tried.
"""

import re

from coilclaw.secrets.encodings import BREAKS, next_line
from coilclaw.secrets.labels import mark
from coilclaw.secrets.scan_cache import Page
from coilclaw.secrets.shape_table import Shape, Table, open_ended
from coilclaw.secrets.stream_engine import Anchor, Hit, More, Window, places
from coilclaw.secrets.webhooks import ANCHOR, is_anchor, webhook

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


_BROKEN = rf"(?:[{BREAKS}]|=(?:[\r\n]|\Z)|\\(?:[rn\r\n\\]|\Z))"
_LONG = rf"(?=[A-Za-z0-9_+/-]{{16}}|[A-Za-z0-9_+/-]{{0,15}}+{_BROKEN})"
# The last two characters before the separator are enough to tell most words from a prefix; the table is exact.
_BEFORE_UNDERSCORE = (
    "hf r8 re hp ho hu hs hr pm sk fp tn lc bp hx at ps io gp ey o1 m2 v1 pi pt rg kn pw ve st od sa gd ua me ca pa ss "
    "ec et en ys yu ms th ka"
)
_BEFORE_DASH = "ey EY at ai ul -u pp pi dt rt tr bt tt ft nt as mt ct AK PX AT KU CK ST lx ly ib GE A3 oj nt"
_BEFORE_DOT = "SG vs vb vr 29 fa pt st ct sa im it sl yJ v1"


def _ends(endings: str, separator: str) -> str:
    return "(?<=" + "|".join(re.escape(ending + separator) for ending in endings.split()) + ")"


def _anchors() -> tuple[Anchor, ...]:
    sources = (
        "_" + _LONG + _ends(_BEFORE_UNDERSCORE, "_"),
        r"-(?<=[A-Za-z3]-)" + _LONG + r"(?:(?<=sk-)(?<![A-Za-z0-9]sk-)|(?<=xox[a-z]-)|(?<=q0[a-z][a-z][a-z]-)|"
        + _ends(_BEFORE_DASH, "-") + ")",
        r"-(?=----BEGIN|----? (?:BEGIN|(?:B|BE|BEG|BEGI)?\Z))",
        r"\.(?<=[A-Za-z0-9]\.)" + _LONG
        + "(?:" + _ends(_BEFORE_DOT, ".") + r"|(?<![\w.][sb]\.)(?<=[sb]\.)|(?=[0-9a-f]{64}))",
        r"\.(?=[\w-]{5,8}+\.[\w-]{26})",
        rf"J(?<=eyJ)(?<![A-Za-z0-9]eyJ)(?=[\w-]{{8}}|[\w-]{{0,7}}+{_BROKEN})",
        r"A(?<![A-Za-z0-9]A)(?=KIA|SIA|BIA|CCA|3T[A-Z0-9]|Iza|TATT3|TCTT3|TBB|KCp|3-[A-Z0-9]{6}-)",
        r"S(?<![A-Za-z0-9]S)(?=K[0-9a-f]{16})",
        r"E(?<![A-Za-z0-9]E)(?=AA[A-Za-z0-9_-]{40}|Z[AT]K)",
        r"L(?<![A-Za-z0-9]L)(?=TAI[A-Za-z0-9]{16}|S0tLS1CRUdJTi(?:BQUkl|BSU0|BFQyBQ|BPUEVO|BFTkNS|BEU0E))",
        r"G(?<![A-Za-z0-9]G)(?=R1348941)",
        r":(?:(?<=\d:)(?=[\w-]{34})|(?=APA91b))",
        r"/(?<=1/)(?=/0[\w-]{30})",
        r"p(?<=dap)(?=i[0-9a-f]{32})",
        r"y(?<=oy)(?=2[a-z0-9]{43})",
        r"~(?<=\dQ~)",
        r"k(?<=webhook)(?=s/\d{10})",
        ANCHOR,
        r"\$(?=2[abxy]\$|argon2|[156y]\$)",
        r"P(?<![\w\]-]P)(?=rivate-Lines:)",
    )  # fmt: skip
    return tuple(map(Anchor.of, sources))


class Shapes:
    """The layer of known token shapes. Holds no state but its compiled patterns, made when first needed."""

    word = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/$~-+"

    def __init__(self) -> None:
        self._anchors: tuple[Anchor, ...] | None = None
        self._table = Table()

    def anchors(self, text: str, at: int) -> list[int]:
        """A telling character of each known prefix."""
        if self._anchors is None:
            self._anchors = _anchors()
        return places(self._anchors, text, at)

    def decide(self, window: Window, at: int) -> Hit | None:
        """The shape this anchor belongs to."""
        first = window.text[at]
        if first == "P" or (first == "-" and window.text.startswith(("-----", "---- "), at)):
            from coilclaw.secrets.keyblock import key_block  # rare, and its patterns cost start-up time

            return key_block(window, at)
        hook = webhook(window, at) if is_anchor(window.text, at) else None
        if hook is not None:
            return hook._replace(end=_gone_on(window, hook.end))
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
    low = window.back(Shapes.word, at, _BEFORE)
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
    """Whether the body is no placeholder such as xxxxxxxx and, for a mixed shape, more than words and separators."""
    start = min(start + 4, stop)
    tally = page.tally(start, stop)
    if not tally.varied(start, stop, 5) or tally.repeats(start, stop):
        return False
    if not shape.mixed:
        return True
    digits = tally.digits(start, stop)
    enough = digits >= 2 and digits * 20 >= stop - start and tally.letters(start, stop) >= 2
    return enough and tally.varied(start, stop, 8)
