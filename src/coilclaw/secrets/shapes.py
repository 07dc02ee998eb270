"""Second layer: tokens whose shape tells what they are, private key blocks, and webhook addresses that are keys.

Cheap regexes find anchors (a rare character of a known prefix with a long run after it); only there the table is tried.
"""

import re

from coilclaw.secrets.labels import mark
from coilclaw.secrets.page import Page
from coilclaw.secrets.shape_table import Shape, Table
from coilclaw.secrets.sieve import Anchor, Hit, More, Window, places

_LONGEST = 2_048
_RUN = re.compile(r"[A-Za-z0-9_.:/=+$~-]*")
_WAIT = re.compile(r"[A-Za-z0-9_.:/=+$~-]{0,2560}")
"""In a run that goes on and on the anchors of some more of it are decided together."""
_RUN_END = re.compile(r"(?=[^A-Za-z0-9_.=+/-])")
_BLANKS = re.compile(r"[ \t]*")
_HALF = re.compile(r"[A-Za-z0-9_.:/=+$~-]{0,256}")
_STARTS = re.compile(r"(?<![A-Za-z0-9])(?=[\w$~])|(?=/)", re.ASCII)
_ALNUM = re.compile(r"[A-Za-z0-9]{0,2048}")
_BEFORE = 48


_LONG = r"(?=[A-Za-z0-9_+/-]{16}|[A-Za-z0-9_+/-]{4,15}+[\r\n])"
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
        r"J(?<=eyJ)(?<![A-Za-z0-9]eyJ)(?=[\w-]{8})",
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
        r"k(?:(?<=slack)(?=\.com/|-gov\.)|(?<=webhook)(?=s/\d{10}|\.office))",
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
        start, stop, kind = found
        if stop >= at + _LONGEST:
            return Hit(start, stop, mark(kind), _RUN_END)
        return Hit(start, _glued(window, stop), mark(kind))

    def _search(
        self, page: Page, starts: list[int], at: int, end: int, *, sure: bool = False
    ) -> tuple[int, int, str] | None:
        """The match that holds the anchor, as (start, end, kind); `sure` leaves out shapes that chance makes too."""
        for place in starts:
            found = self._table.match(page, place, end)
            if found:
                start, stop, shape = found
                if stop > at and not (sure and shape.mixed) and _telling(page, start, stop, shape):
                    return start, stop, shape.kind
        return None

    def _split(self, window: Window, starts: list[int], at: int, end: int) -> Hit | None:
        """A token that a line break cut in two: only together do the halves have the shape."""
        if not starts or window.char(end) not in ("\r", "\n"):
            return None
        after = end + 1
        if window.text[end] == "\r" and window.char(after) == "\n":
            after += 1
        after = window.run(_BLANKS, after)
        stop = window.run(_HALF, after)
        page, low = window.page.halves(max(0, end - _LONGEST - _BEFORE), end, after, stop)
        size = end - low
        whole = self._search(page, [start - low for start in starts], at - low, size + stop - after, sure=True)
        if whole is None or whole[1] - size < 4:
            return None
        return Hit(low + whole[0], _glued(window, after + whole[1] - size), mark(whole[2]))


def _starts(window: Window, at: int) -> list[int]:
    """Where the token that holds this anchor may start: the few word starts before it, nearest last."""
    first = window.text[at]
    if first in "$AESLG":
        return [at]
    low = window.back(Shapes.word, at, _BEFORE)
    return window.page.points(_STARTS, low, at)[-(8 if first in ".~:" else 4) :]


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
