"""Second layer: tokens whose shape tells what they are, private key blocks, and webhook addresses that are keys.

Cheap regexes find anchors (a rare character of a known prefix with a long run after it); only there the table is tried.
"""

import re
from typing import NamedTuple

from coilclaw.secrets.labels import mark
from coilclaw.secrets.sieve import Hit, Window, places

_LONGEST = 2_048
_RUN = re.compile(r"[A-Za-z0-9_.:/=+$~-]{0,2048}")
_RUN_END = re.compile(r"(?=[^A-Za-z0-9_.=+/-])")
_BLANKS = re.compile(r"[ \t]*")
_HALF = re.compile(r"[A-Za-z0-9_.:/=+$~-]{0,256}")
_STARTS = re.compile(r"(?<![A-Za-z0-9])(?=[\w$~])|(?=/)", re.ASCII)
_ALNUM = re.compile(r"[A-Za-z0-9]{0,2048}")
_BEFORE = 48


class _Shape(NamedTuple):
    first: str
    """The characters it may start with; `*` for any."""
    kind: str
    pattern: str
    """The group `s`, where there is one, is what is replaced; otherwise all of it."""
    mixed: bool = False
    """The body must look random, because the prefix alone is not telling."""


_SHAPES = (
    _Shape("g", "github", r"gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{20,}"),
    _Shape("c", "coilclaw", r"cc_[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])"),
    _Shape(
        "gG",
        "gitlab",
        r"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|agent|oas|soat|imt|ffct)-[A-Za-z0-9_.-]{16,}|GR1348941[\w-]{20,}",
    ),
    _Shape("s", "anthropic", r"sk-ant-[\w-]{16,}"),
    _Shape("s", "openrouter", r"sk-or-(?:v\d-)?[A-Za-z0-9]{16,}"),
    _Shape("s", "openai", r"sk-(?:proj|svcacct|admin|service|None)-[\w-]{16,}"),
    _Shape("s", "api_key", r"sk-(?:[a-z0-9]{1,12}-){0,2}[A-Za-z0-9_-]{20,}", mixed=True),
    _Shape("A", "aws", r"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _Shape("AyG1", "google", r"AIza[\w-]{30,}|ya29\.[\w.-]{16,}|GOCSPX-[\w-]{20,}|1//0[\w-]{30,}"),
    _Shape("xh", "slack", r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}", mixed=True),
    _Shape("xh", "slack", r"hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/(?P<s1>[\w/+-]{16,})"),
    _Shape("MNOm/", "discord", r"[MNO][\w-]{22,28}\.[\w-]{5,8}\.[\w-]{26,}|mfa\.[\w-]{60,}"),
    _Shape("MNOm/", "discord", r"/webhooks/\d{10,}/(?P<s2>[\w-]{30,})"),
    _Shape("w", "webhook", r"webhook\.office\.com/webhookb2/(?P<s3>[\w@/-]{30,})"),
    _Shape("srw", "stripe", r"(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{16,}"),
    _Shape("S", "twilio", r"SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    _Shape("S", "sendgrid", r"SG\.[\w-]{16,}(?:\.[\w-]{16,})?"),
    _Shape("n", "npm", r"npm_[A-Za-z0-9]{20,}"),
    _Shape("p", "pypi", r"pypi-AgE[\w-]{13,}"),
    _Shape("A", "google", r"AAAA[\w-]{7}:APA91b[\w-]{60,}"),
    _Shape("L", "private_key", r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]{40,}"),
    _Shape(
        "e", "jwt", r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*)?|eyJ[\w-]{8,}\.[\w-]{0,800}\.[\w-]{8,}(?:\.[\w-]{8,}){0,2}"
    ),
    _Shape("b0123456789", "telegram", r"(?:bot)?(?P<s4>\d{7,12}:[\w-]{34,36}(?![A-Za-z0-9]))", mixed=True),
    _Shape("ha", "huggingface", r"hf_[A-Za-z0-9]{20,}|api_org_[A-Za-z0-9]{30,}"),
    _Shape("hsb", "vault", r"hv[sbr]\.[\w-]{20,}"),
    _Shape("hsb", "vault", r"(?<![\w.])[sb]\.[A-Za-z0-9]{24}(?![\w.])", mixed=True),
    _Shape("d", "digitalocean", r"do[oprt]_v1_[0-9a-f]{32,}"),
    _Shape("s", "shopify", r"shp[a-z]{2,3}_[0-9a-fA-F]{16,}"),
    _Shape("sE", "square", r"sq0[a-z]{3}-[\w-]{20,}|EAAA[\w-]{40,}"),
    _Shape("E", "facebook", r"EAA[A-Za-z0-9]{60,}"),
    _Shape("k", "mailgun", r"key-[0-9a-f]{32}(?![0-9a-f])"),
    _Shape("A", "age", r"AGE-(?:SECRET-KEY|PLUGIN-[A-Z0-9]+)-1[A-Z0-9]{20,}"),
    _Shape("H", "heroku", r"HRKU-[\w-]{20,}"),
    _Shape("*", "azure", r"[\w~.]{3}\dQ~[\w~.-]{31,}"),
    _Shape("d", "databricks", r"dapi[0-9a-f]{32}(?:-\d)?"),
    _Shape("A", "atlassian", r"AT(?:ATT|CTT)3x[\w=-]{40,}|ATBB[A-Za-z0-9]{28,}"),
    _Shape("*", "terraform", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{30,}"),
    _Shape("p", "airtable", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    _Shape("L", "alibaba", r"LTAI[A-Za-z0-9]{16,26}(?![A-Za-z0-9])"),
    _Shape("o", "nuget", r"oy2[a-z0-9]{43}(?![a-z0-9])"),
    _Shape("A", "jfrog", r"AKCp[A-Za-z0-9]{60,}"),
    _Shape(
        "Ao",
        "onepassword",
        r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}|ops_eyJ[\w=+/-]{40,}",
    ),
    _Shape("p", "hubspot", r"pat-[a-z]{2}\d-[0-9a-f-]{36}"),
    _Shape("E", "easypost", r"EZ[AT]K[A-Za-z0-9]{40,}"),
    _Shape(
        "$",
        "password_hash",
        r"\$(?:2[abxy]\$\d\d\$[./A-Za-z0-9]{40,}|argon2(?:id|i|d)\$[\w$=,+/.-]{20,}|[156y]\$[\w$=./-]{20,})",
    ),
    _Shape(
        "ldsrgpfb",
        "api_key",
        r"(?:lin_api|lsv2_[a-z]{2}|dckr_[po]at|sntry[su]|rubygems|glsa|pscale_[a-z]{2,8}|figd|bkua)_[A-Za-z0-9_-]{20,}",
    ),
    _Shape(
        "*",
        "api_key",
        r"(?:ntn|nfp|glc|gsk|r8|sbp|phx|re|rdme|sgp|tfp|aio|fo1|fm2|ops|secret|pat|[a-z0-9]{2,16}_"
        r"(?:live|test|prod|secret|sk|pat|key|token|api))_[A-Za-z0-9_-]{20,}",
        mixed=True,
    ),
    _Shape(
        "NPpxtnCFf",
        "api_key",
        r"(?:NRAK|PMAK|pul|xkeysib|xai|pplx|tvly|nvapi|tskey-[a-z]+|CFPAT|FLWSECK(?:_TEST)?|fio-u)-[\w-]{20,}",
        mixed=True,
    ),
    _Shape("ds", "api_key", r"(?:dp\.(?:pt|st|ct|sa|scim|audit)|sl|sk\.eyJ)\.[\w.-]{20,}", mixed=True),
)

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


def _anchors() -> tuple[re.Pattern[str], ...]:
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
    return tuple(re.compile(source, re.ASCII) for source in sources)


def random_looking(body: str) -> bool:
    """Whether a token body is more than words and separators: letters and digits mixed, few repeats."""
    letters = sum(char.isalpha() for char in body)
    digits = sum(char.isdecimal() for char in body)
    return digits >= 2 and letters >= 2 and len(set(body)) >= 8 and digits * 20 >= len(body)


class Shapes:
    """The layer of known token shapes. Holds no state but its compiled patterns, made when first needed."""

    word = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/$~-+"

    def __init__(self) -> None:
        self._anchors: tuple[re.Pattern[str], ...] | None = None
        self._tables: dict[str, re.Pattern[str]] = {}

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
        end = window.run(_RUN, at)
        dashes = window.text.find("----", at, end)
        end = dashes if dashes > 0 else end  # a key block may follow without a break
        starts = _starts(window, at)
        found = self._search(window.text, starts, at, end)
        if found is None:
            return self._split(window, starts, at, end)
        start, stop, kind = found
        if stop >= at + _LONGEST:
            return Hit(start, stop, mark(kind), _RUN_END)
        return Hit(start, _glued(window, stop), mark(kind))

    def _search(
        self, text: str, starts: list[int], at: int, end: int, *, sure: bool = False
    ) -> tuple[int, int, str] | None:
        """The match that holds the anchor, as (start, end, kind); `sure` leaves out shapes that chance makes too."""
        for place in starts:
            found = self._table(text[place]).match(text, place, end)
            if found:
                start, stop, shape = _replaced(found)
                if stop > at and not (sure and shape.mixed) and _telling(text[start:stop], shape):
                    return start, stop, shape.kind
        return None

    def _table(self, first: str) -> re.Pattern[str]:
        if first not in self._tables:
            rows = (
                f"(?P<k{number}>{shape.pattern})"
                for number, shape in enumerate(_SHAPES)
                if first in shape.first or shape.first == "*"
            )
            self._tables[first] = re.compile("|".join(rows), re.ASCII)
        return self._tables[first]

    def _split(self, window: Window, starts: list[int], at: int, end: int) -> Hit | None:
        """A token that a line break cut in two: only together do the halves have the shape."""
        if not starts or window.char(end) not in ("\r", "\n"):
            return None
        after = end + 1
        if window.text[end] == "\r" and window.char(after) == "\n":
            after += 1
        after = window.run(_BLANKS, after)
        stop = window.run(_HALF, after)
        low = starts[0]
        joined = window.text[low:end] + window.text[after:stop]
        whole = self._search(joined, [start - low for start in starts], at - low, len(joined), sure=True)
        if whole is None or whole[1] - (end - low) < 4:
            return None
        return Hit(low + whole[0], _glued(window, after + whole[1] - (end - low)), mark(whole[2]))


def _starts(window: Window, at: int) -> list[int]:
    """Where the token that holds this anchor may start: the few word starts before it, nearest last."""
    first = window.text[at]
    if first in "$AESLG":
        return [at]
    low = window.back(Shapes.word, at, _BEFORE)
    found = [match.start() for match in _STARTS.finditer(window.text, low, at + 1)]
    return found[-(8 if first in ".~:" else 4) :]


def _glued(window: Window, end: int) -> int:
    """What clings to a token goes with it: it may belong to it, or be another one."""
    return window.run(_ALNUM, end)


def _replaced(found: re.Match[str]) -> tuple[int, int, _Shape]:
    told = [name for name, text in found.groupdict().items() if text is not None]
    shape = _SHAPES[next(int(name[1:]) for name in told if name[0] == "k")]
    inner = next((name for name in told if name[0] == "s"), None)
    return (found.start(inner), found.end(inner), shape) if inner else (found.start(), found.end(), shape)


def _telling(token: str, shape: _Shape) -> bool:
    body = token[4:]
    if len(set(body)) < 5 or re.search(r"(.)\1{7}", body):  # xxxxxxxx, ********: somebody wrote a placeholder
        return False
    return not shape.mixed or random_looking(body)
