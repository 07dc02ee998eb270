"""The table of known token shapes. Each has a short distinctive head and a rest that is looked up, not matched.

Otherwise a text full of heads would be scanned again from each of them to its end.
"""

import re
from typing import NamedTuple

from coilclaw.secrets.scan_cache import Head, Page

REACH = 128
"""Maximum length of a head, including lookahead."""


class Shape(NamedTuple):
    """One row: what a token of some kind looks like."""

    first: str
    """The characters it may start with; `*` for any."""
    kind: str
    pattern: str
    """The group `s`, if there is one, is replaced; otherwise all of it."""
    mixed: bool = False
    """The body must look random, because the prefix alone is not distinctive."""
    long: bool = False
    """A part before the last is open-ended too, so the head may be long. Such a part contains no separator."""


SHAPES = (
    Shape("g", "github", r"gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{20,}"),
    Shape("c", "coilclaw", r"cc_[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])"),
    Shape(
        "gG",
        "gitlab",
        r"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|agent|oas|soat|imt|ffct)-[A-Za-z0-9_.-]{16,}|GR1348941[\w-]{20,}",
    ),
    Shape("s", "anthropic", r"sk-ant-[\w-]{16,}"),
    Shape("s", "openrouter", r"sk-or-(?:v\d-)?[A-Za-z0-9]{16,}"),
    Shape("s", "openai", r"sk-(?:proj|svcacct|admin|service|None)-[\w-]{16,}"),
    Shape("s", "api_key", r"sk-(?:[a-z0-9]{1,12}-){0,2}[A-Za-z0-9_-]{20,}", mixed=True),
    Shape("A", "aws", r"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}(?![A-Za-z0-9])"),
    Shape("AyG1", "google", r"AIza[\w-]{30,}|ya29\.[\w.-]{16,}|GOCSPX-[\w-]{20,}|1//0[\w-]{30,}"),
    Shape("x", "slack", r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}", mixed=True),
    Shape("MNOm/", "discord", r"[MNO][\w-]{22,28}\.[\w-]{5,8}\.[\w-]{26,}|mfa\.[\w-]{60,}"),
    Shape("MNOm/", "discord", r"/webhooks/\d{10,}/(?P<s2>[\w-]{30,})", long=True),
    Shape("srw", "stripe", r"(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{16,}"),
    Shape("S", "twilio", r"SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    Shape("n", "npm", r"npm_[A-Za-z0-9]{20,}"),
    Shape("p", "pypi", r"pypi-AgE[\w-]{13,}"),
    Shape("A", "google", r"AAAA[\w-]{7}:APA91b[\w-]{60,}"),
    Shape("L", "private_key", r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]{40,}"),
    Shape("b0123456789", "telegram", r"(?:bot)?(?P<s5>\d{7,12}:AA[\w-]{32,34}(?![A-Za-z0-9]))"),
    Shape("b0123456789", "telegram", r"(?:bot)?(?P<s4>\d{7,12}:[\w-]{34,36}(?![A-Za-z0-9]))", mixed=True),
    Shape("t", "ntfy", r"tk_[a-z0-9]{29}(?![A-Za-z0-9])"),
    Shape("ha", "huggingface", r"hf_[A-Za-z0-9]{20,}|api_org_[A-Za-z0-9]{30,}"),
    Shape("hsb", "vault", r"hv[sbr]\.[\w-]{20,}"),
    Shape("hsb", "vault", r"(?<![\w.])[sb]\.[A-Za-z0-9]{24}(?![\w.])", mixed=True),
    Shape("d", "digitalocean", r"do[oprt]_v1_[0-9a-f]{32,}"),
    Shape("s", "shopify", r"shp[a-z]{2,3}_[0-9a-fA-F]{16,}"),
    Shape("sE", "square", r"sq0[a-z]{3}-[\w-]{20,}|EAAA[\w-]{40,}"),
    Shape("E", "facebook", r"EAA[A-Za-z0-9]{60,}"),
    Shape("k", "mailgun", r"key-[0-9a-f]{32}(?![0-9a-f])"),
    Shape("A", "age", r"AGE-SECRET-KEY-1[A-Z0-9]{20,}"),
    Shape("A", "age", r"AGE-PLUGIN-[A-Z0-9]+-1[A-Z0-9]{20,}", long=True),
    Shape("H", "heroku", r"HRKU-[\w-]{20,}"),
    Shape("*", "azure", r"[\w~.]{3}\dQ~[\w~.-]{31,}"),
    Shape("d", "databricks", r"dapi[0-9a-f]{32}(?:-\d)?"),
    Shape("A", "atlassian", r"AT(?:ATT|CTT)3x[\w=-]{40,}|ATBB[A-Za-z0-9]{28,}"),
    Shape("*", "terraform", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{30,}"),
    Shape("p", "airtable", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    Shape("L", "alibaba", r"LTAI[A-Za-z0-9]{16,26}(?![A-Za-z0-9])"),
    Shape("o", "nuget", r"oy2[a-z0-9]{43}(?![a-z0-9])"),
    Shape("A", "jfrog", r"AKCp[A-Za-z0-9]{60,}"),
    Shape(
        "Ao",
        "onepassword",
        r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}|ops_eyJ[\w=+/-]{40,}",
    ),
    Shape("p", "hubspot", r"pat-[a-z]{2}\d-[0-9a-f-]{36}"),
    Shape("E", "easypost", r"EZ[AT]K[A-Za-z0-9]{40,}"),
    Shape(
        "$",
        "password_hash",
        r"\$(?:2[abxy]\$\d\d\$[./A-Za-z0-9]{40,}|argon2(?:id|i|d)\$[\w$=,+/.-]{20,}|[156y]\$[\w$=./-]{20,})",
    ),
    Shape(
        "ldsrgpfb",
        "api_key",
        r"(?:lin_api|lsv2_[a-z]{2}|dckr_[po]at|sntry[su]|rubygems|glsa|pscale_[a-z]{2,8}|figd|bkua)_[A-Za-z0-9_-]{20,}",
    ),
    Shape(
        "*",
        "api_key",
        r"(?:ntn|nfp|glc|gsk|r8|sbp|phx|re|rdme|sgp|tfp|aio|fo1|fm2|ops|secret|pat|[a-z0-9]{2,16}_"
        r"(?:live|test|prod|secret|sk|pat|key|token|api))_[A-Za-z0-9_-]{20,}",
        mixed=True,
    ),
    Shape("t", "api_key", r"tskey-[a-z]+-[\w-]{20,}", mixed=True, long=True),
    Shape(
        "NPpxtnCFf",
        "api_key",
        r"(?:NRAK|PMAK|pul|xkeysib|xai|pplx|tvly|nvapi|CFPAT|FLWSECK(?:_TEST)?|fio-u)-[\w-]{20,}",
        mixed=True,
    ),
    Shape("ds", "api_key", r"(?:dp\.(?:pt|st|ct|sa|scim|audit)|sl|sk\.eyJ)\.[\w.-]{20,}", mixed=True),
)

JWT = Shape("e", "jwt", "eyJ")
SENDGRID = Shape("S", "sendgrid", r"SG\.")
_OPEN = re.compile(r"(\[[^\]]+\])\{(\d+),\}(?=\)?(?:\||\Z))")
_PART = re.compile(r"[\w-]*", re.ASCII)


def open_ended(shape: Shape) -> bool:
    """Whether a token of this shape may continue; one of fixed length may not."""
    return shape.kind in ("jwt", "sendgrid") or _OPEN.search(shape.pattern) is not None


class _Row(NamedTuple):
    source: str
    inner: tuple[str, ...]
    tails: tuple[tuple[str, re.Pattern[str]], ...]


def _row(number: int, shape: Shape) -> _Row:
    """A pattern with its open ends reduced to their minimum; an empty group marks each."""
    tails: list[tuple[str, re.Pattern[str]]] = []

    def cut(found: re.Match[str]) -> str:
        name = f"t{number}_{len(tails)}"
        tails.append((name, re.compile(found[1] + "*", re.ASCII)))
        return f"{found[1]}{{{found[2]}}}(?P<{name}>)"

    source = _OPEN.sub(cut, shape.pattern)
    inner = tuple(re.findall(r"\?P<(s\d)>", shape.pattern))
    return _Row(f"(?P<k{number}>{source})", inner, tuple(tails))


class Table:
    """The shapes, compiled per first character when first needed."""

    def __init__(self) -> None:
        self._rows: dict[int, _Row] = {}
        self._short: dict[str, re.Pattern[str]] = {}
        self._long: dict[str, re.Pattern[str]] = {}

    def match(self, page: Page, at: int, end: int) -> tuple[int, int, Shape] | None:
        """What starts here and ends before `end`: the part to replace, and its shape."""
        if page.text[at] in "eS/At":
            found = self._segmented(page, at, end)
            if found:
                return found
            head = self._long_head(page.text, at, end)
            if head:
                page.looked += head.end - at
                return _with_tail(page, head, end)
        head = page.head(self._short_head, at, min(end, at + REACH))
        return _with_tail(page, head, end) if head else None

    def _short_head(self, text: str, at: int, end: int) -> Head | None:
        return self._head(self._compiled(self._short, text[at], long=False).match(text, at, end))

    def _long_head(self, text: str, at: int, end: int) -> Head | None:
        return self._head(self._compiled(self._long, text[at], long=True).match(text, at, end))

    def _head(self, found: re.Match[str] | None) -> Head | None:
        if found is None:
            return None
        number = int((found.lastgroup or "")[1:])
        row = self._rows[number]
        start = next((found.start(name) for name in row.inner if found.start(name) >= 0), found.start())
        tail = next((members for name, members in row.tails if found.start(name) >= 0), None)
        return Head(start, found.end(), number, tail)

    def _segmented(self, page: Page, at: int, end: int) -> tuple[int, int, Shape] | None:
        """Shapes of parts with dots between: each part is a run."""
        if page.text.startswith("eyJ", at):
            stop, shape = _jwt(page, at, end), JWT
        elif page.text.startswith("SG.", at):
            stop, shape = _sendgrid(page, at, end), SENDGRID
        else:
            return None
        return (at, stop, shape) if stop else None

    def _compiled(self, tables: dict[str, re.Pattern[str]], first: str, *, long: bool) -> re.Pattern[str]:
        if first not in tables:
            if not self._rows:
                self._rows = {number: _row(number, shape) for number, shape in enumerate(SHAPES)}
            rows = (
                self._rows[number].source
                for number, shape in enumerate(SHAPES)
                if shape.long is long and (first in shape.first or shape.first == "*")
            )
            tables[first] = re.compile("|".join(rows) or "(?!)", re.ASCII)
        return tables[first]


def _with_tail(page: Page, head: Head, end: int) -> tuple[int, int, Shape]:
    stop = head.end if head.tail is None else min(page.run_end(head.tail, head.end), end)
    return head.start, stop, SHAPES[head.shape]


def _part(page: Page, at: int, end: int, least: int) -> int:
    """The end of the part that starts here; 0 if it is too short."""
    stop = min(page.run_end(_PART, at), end)
    return stop if stop - at >= least else 0


def _dotted(page: Page, at: int, end: int) -> bool:
    return at < end and page.text[at] == "."


def _jwt(page: Page, at: int, end: int) -> int:
    """The end of a JWT (header, claims, signature) or of an encrypted one with five parts; 0 if it is neither."""
    header = _part(page, at + 3, end, 8)
    if not header or not _dotted(page, header, end):
        return 0
    claims = _part(page, header + 1, end, 0)
    if page.text.startswith("eyJ", header + 1) and claims - header - 1 >= 11:
        return _part(page, claims + 1, end, 0) if _dotted(page, claims, end) else claims
    if claims - header - 1 > 800 or not _dotted(page, claims, end):
        return 0
    stop = _part(page, claims + 1, end, 8)
    for _ in range(2):
        more = _part(page, stop + 1, end, 8) if stop and _dotted(page, stop, end) else 0
        stop = more or stop
    return stop


def _sendgrid(page: Page, at: int, end: int) -> int:
    stop = _part(page, at + 3, end, 16)
    more = _part(page, stop + 1, end, 16) if stop and _dotted(page, stop, end) else 0
    return more or stop
