"""Second layer: tokens recognisable by shape, private key blocks, and webhook addresses that are keys.

Cheap regexes find anchors (a rare character of a known prefix with a long run after it); only there the table is tried.
"""

import re
from typing import TYPE_CHECKING

from coilclaw.secrets.encodings import BREAKS
from coilclaw.secrets.stream_engine import Anchor, Hit, Window, places

if TYPE_CHECKING:
    from coilclaw.secrets.tokens import TokenFinder

WORD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/$~-+"
_BROKEN = rf"(?:[{BREAKS}]|=(?:[\r\n]|\Z)|\\(?:[rn\r\n\\]|\Z))"
_LONG = rf"(?=[A-Za-z0-9_+/-]{{16}}|[A-Za-z0-9_+/-]{{0,15}}+{_BROKEN})"
# The last two characters before the separator rule out most words; the table is exact.
_BEFORE_UNDERSCORE = (
    "hf r8 re hp ho hu hs hr pm sk fp tn lc bp hx at ps io gp ey o1 m2 v1 pi pt rg kn pw ve st od sa gd ua me ca pa ss "
    "ec et en ys yu ms th ka"
)
_BEFORE_DASH = "ey EY at ai ul -u pp pi dt rt tr bt tt ft nt as mt ct AK PX AT KU CK ST lx ly ib GE A3 oj nt"
_BEFORE_DOT = "SG vs vb vr 29 fa pt st ct sa im it sl yJ v1"
_BEFORE_COM = "lack -gov cord dapp fice e365 pier fttt make ping"
"""What names end in whose webhooks are keys."""


def _ends(endings: str, separator: str) -> str:
    return "(?<=" + "|".join(re.escape(ending + separator) for ending in endings.split()) + ")"


def _anchors() -> tuple[Anchor, ...]:
    return (
        Anchor("_" + _LONG + _ends(_BEFORE_UNDERSCORE, "_")),
        Anchor(
            r"-(?<=[A-Za-z3]-)" + _LONG + r"(?:(?<=sk-)(?<![A-Za-z0-9]sk-)|(?<=xox[a-z]-)|(?<=q0[a-z][a-z][a-z]-)|"
            + _ends(_BEFORE_DASH, "-") + ")"
        ),
        Anchor(r"-(?=----BEGIN|----? (?:BEGIN|(?:B|BE|BEG|BEGI)?\Z))", "----"),
        Anchor(
            r"\.(?<=[A-Za-z0-9]\.)" + _LONG
            + "(?:" + _ends(_BEFORE_DOT, ".") + r"|(?<![\w.][sb]\.)(?<=[sb]\.)|(?=[0-9a-f]{64}))"
        ),
        Anchor(r"\.(?=[\w-]{5,8}+\.[\w-]{26})"),
        Anchor(rf"J(?<=eyJ)(?<![A-Za-z0-9]eyJ)(?=[\w-]{{8}}|[\w-]{{0,7}}+{_BROKEN})", "eyJ"),
        Anchor(
            r"A(?<![A-Za-z0-9]A)(?=KIA|SIA|BIA|CCA|3T[A-Z0-9]|Iza|TATT3|TCTT3|TBB|KCp|3-[A-Z0-9]{6}-)",
            "AKIA", "ASIA", "ABIA", "ACCA", "A3", "AIza", "ATATT3", "ATCTT3", "ATBB", "AKCp",
        ),
        Anchor(r"S(?<![A-Za-z0-9]S)(?=K[0-9a-f]{16})", "SK"),
        Anchor(r"E(?<![A-Za-z0-9]E)(?=AA[A-Za-z0-9_-]{40}|Z[AT]K)", "EAA", "EZAK", "EZTK"),
        Anchor(
            r"L(?<![A-Za-z0-9]L)(?=TAI[A-Za-z0-9]{16}|S0tLS1CRUdJTi(?:BQUkl|BSU0|BFQyBQ|BPUEVO|BFTkNS|BEU0E))",
            "LTAI", "LS0tLS1CRUdJTi",
        ),
        Anchor(r"G(?<![A-Za-z0-9]G)(?=R1348941)", "GR1348941"),
        Anchor(r":(?:(?<=\d:)(?=[\w-]{34})|(?=APA91b))"),
        Anchor(r"/(?<=1/)(?=/0[\w-]{30})", "1//0"),
        Anchor(r"p(?<=dap)(?=i[0-9a-f]{32})", "dapi"),
        Anchor(r"y(?<=oy)(?=2[a-z0-9]{43})", "oy2"),
        Anchor(r"~(?<=\dQ~)", "Q~"),
        Anchor(r"k(?<=webhook)(?=s/\d{10})", "webhooks/"),
        Anchor(r"\.(?=com[:/\\%]|COM[:/\\%])" + _ends(f"{_BEFORE_COM} {_BEFORE_COM.upper()}", "."), ".com", ".COM"),
        Anchor(r"\$(?=2[abxy]\$|argon2|[156y]\$)"),
        Anchor(r"P(?<![\w\]-]P)(?=rivate-Lines:)", "Private-Lines:"),
    )  # fmt: skip


class Shapes:
    """The layer of known token shapes. Its only state is its patterns, compiled when first needed."""

    word = WORD

    def __init__(self) -> None:
        self._anchors: tuple[Anchor, ...] | None = None
        self._tokens: TokenFinder | None = None

    def anchors(self, text: str, at: int) -> list[int]:
        """A distinctive character of each known prefix."""
        if self._anchors is None:
            self._anchors = _anchors()
        return places(self._anchors, text, at)

    def decide(self, window: Window, at: int) -> Hit | None:
        """The shape this anchor belongs to."""
        if self._tokens is None:
            from coilclaw.secrets.tokens import TokenFinder  # most texts have no anchor and never pay for its patterns

            self._tokens = TokenFinder()
        return self._tokens.decide(window, at)
