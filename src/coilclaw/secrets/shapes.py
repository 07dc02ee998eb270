"""Second layer: tokens recognisable by shape, private key blocks, and webhook addresses that are keys.

Cheap regexes find anchors (a rare character of a known prefix with a long run after it); only there the table is tried.
"""

import re
from typing import TYPE_CHECKING

from coilclaw.secrets.encodings import BREAKS
from coilclaw.secrets.stream_engine import Anchor, Anchors, Hit, Window

if TYPE_CHECKING:
    from coilclaw.secrets.tokens import TokenFinder

WORD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/$~-+"
_BROKEN = rf"(?:[{BREAKS}]|=(?:[\r\n]|\Z)|\\(?:[rn\r\n\\]|\Z))"
_LONG = rf"(?=[A-Za-z0-9_+/-]{{16}}|[A-Za-z0-9_+/-]{{0,15}}+{_BROKEN})"
# The last two characters before the separator rule out most words; the table is exact.
BEFORE_UNDERSCORE = (
    "hf r8 re hp ho hu hs hr pm sk fp tn lc bp hx at ps io gp ey o1 m2 v1 pi pt rg kn pw ve st od sa gd ua me ca pa ss "
    "ec et en ys yu ms th ka tk"
)
BEFORE_DASH = "ey EY at ai ul -u pp pi dt rt tr bt tt ft nt as mt ct AK PX AT KU CK ST lx ly ib GE A3 oj nt"
BEFORE_DOT = "SG vs vb vr 29 fa pt st ct sa im it sl yJ v1"
BEFORE_COM = "lack -gov cord dapp fice e365 pier fttt make ping"
"""What names end in whose webhooks are keys."""


def _ends(endings: str, separator: str) -> str:
    return "(?<=" + "|".join(re.escape(ending + separator) for ending in endings.split()) + ")"


_DASH = (
    r"(?<=[A-Za-z3]-)" + _LONG + r"(?:(?<=sk-)(?<![A-Za-z0-9]sk-)|(?<=xox[a-z]-)|(?<=q0[a-z][a-z][a-z]-)|"
    + _ends(BEFORE_DASH, "-") + ")"
)  # fmt: skip
_TITLE = r"(?=----BEGIN|----? (?:BEGIN|(?:B|BE|BEG|BEGI)?\Z))"
_DOT = (
    r"(?<=[A-Za-z0-9]\.)" + _LONG
    + "(?:" + _ends(BEFORE_DOT, ".") + r"|(?<![\w.][sb]\.)(?<=[sb]\.)|(?=[0-9a-f]{64}))"
)  # fmt: skip
_THREE_PARTS = r"(?=[\w-]{5,8}+\.[\w-]{26})"
_DOT_COM = r"(?=com[:/\\%]|COM[:/\\%])" + _ends(f"{BEFORE_COM} {BEFORE_COM.upper()}", ".")
_DOT_SH = r"(?=sh[:/\\%]|SH[:/\\%])" + _ends("ntfy NTFY", ".")


def _anchors() -> tuple[Anchor, ...]:
    """Those that start with a letter have fingerprints: letters are everywhere, and would all be looked at."""
    return (
        Anchor("_" + _LONG + _ends(BEFORE_UNDERSCORE, "_")),
        Anchor(f"-(?:{_DASH}|{_TITLE})"),
        Anchor(rf"\.(?:{_DOT}|{_THREE_PARTS}|{_DOT_COM}|{_DOT_SH}|(?<=dp\.st\.)|(?=m\.pipedream\.net))"),
        Anchor(
            rf"J(?<=eyJ)(?<![A-Za-z0-9]eyJ)(?=[\w-]{{8}}|[\w-]{{0,7}}+{_BROKEN})", "eyJ",
            prints=((0, 2, ("e", "y", "J")),),
        ),
        Anchor(
            r"A(?<![A-Za-z0-9]A)(?=KIA|SIA|BIA|CCA|3T[A-Z0-9]|Iza|TATT3|TCTT3|TBB|KCp|3-[A-Z0-9]{6}-)",
            "AKIA", "ASIA", "ABIA", "ACCA", "A3", "AIza", "ATATT3", "ATCTT3", "ATBB", "AKCp",
            prints=((2, 0, ("A", "KSB", "I")), (3, 0, ("A", "CK3IT", "CTzB-")), (4, 0, ("A", "T", "A"))),
        ),
        Anchor(r"S(?<![A-Za-z0-9]S)(?=K[0-9a-f]{16})", "SK", prints=((5, 0, ("S", "K", "0123456789abcdef")),)),
        Anchor(
            r"E(?<![A-Za-z0-9]E)(?=AA[A-Za-z0-9_-]{40}|Z[AT]K)", "EAA", "EZAK", "EZTK",
            prints=((4, 0, ("E", "AZ", "AT")),),
        ),
        Anchor(
            r"L(?<![A-Za-z0-9]L)(?=TAI[A-Za-z0-9]{16}|S0tLS1CRUdJTi(?:BQUkl|BSU0|BFQyBQ|BPUEVO|BFTkNS|BEU0E))",
            "LTAI", "LS0tLS1CRUdJTi", prints=((5, 0, ("L", "TS", "A0")),),
        ),
        Anchor(r"G(?<![A-Za-z0-9]G)(?=R1348941)", "GR1348941", prints=((5, 0, ("G", "R", "1")),)),
        Anchor(rf":(?:(?<=\d{{7}}:)(?=[\w-]{{34}}|[\w-]{{0,33}}+{_BROKEN})|(?=APA91b))"),
        Anchor(r"/(?<=1/)(?=/0[\w-]{30})", "1//0", prints=((1, 1, ("1", "/", "/")),)),
        Anchor(r"p(?<=dap)(?=i[0-9a-f]{32})", "dapi", prints=((6, 2, ("d", "a", "p")),)),
        Anchor(r"y(?<=oy)(?=2[a-z0-9]{43})", "oy2", prints=((0, 1, ("o", "y", "2")),)),
        Anchor(r"~(?<=\dQ~)", "Q~"),
        Anchor(r"k(?<=webhook)(?=s/\d{10})", "webhooks/", prints=((7, 1, ("o", "k", "s")),)),
        Anchor(
            rf"h(?<=[/fF]h)(?=ooks(?:\\{{0,8}}/|%)|ooks{_BROKEN})", "hooks", prints=((7, -2, ("o", "k", "s")),)
        ),
        Anchor(r"\$(?=2[abxy]\$|argon2|[156y]\$)"),
        Anchor(r"P(?<![\w\]-]P)(?=rivate-Lines:)", "Private-Lines:", prints=((1, -7, ("-", "L", "i")),)),
    )  # fmt: skip


class Shapes:
    """The layer of known token shapes. Its only state is its patterns, compiled when first needed."""

    word = WORD

    def __init__(self) -> None:
        self._anchors: Anchors | None = None
        self._tokens: TokenFinder | None = None

    def anchors(self, text: str, at: int) -> list[int]:
        """A distinctive character of each known prefix."""
        if self._anchors is None:
            self._anchors = Anchors(_anchors())
        return self._anchors.places(text, at)

    def decide(self, window: Window, at: int) -> Hit | None:
        """The shape this anchor belongs to."""
        if self._tokens is None:
            from coilclaw.secrets.tokens import TokenFinder  # most texts have no anchor and never pay for its patterns

            self._tokens = TokenFinder()
        return self._tokens.decide(window, at)
