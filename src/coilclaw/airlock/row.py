"""One line of `coilclaw airlock check --stdin`: a URL or a redirect sequence with simulated DNS answers."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from coilclaw.airlock.judge import EgressVerdict, judge_chain
from coilclaw.airlock.listing import Listing
from coilclaw.packets.canonical import NotCanonical, parse_object
from coilclaw.packets.errors import CoilclawError
from coilclaw.packets.http import Principal

MAX_ROW = 1 << 20


class CheckRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The question: may `principal` fetch `url`, or follow `chain`, given these DNS answers?"""

    url: str
    principal: Principal = msgspec.field(default="web_open", name="for")
    answers: dict[str, list[str]] | None = None
    """Addresses by host; when given, nothing is looked up."""
    chain: list[str] = []
    """A redirect sequence that starts with the URL."""

    def hops(self) -> list[str]:
        """The sequence to judge; a chain without its first URL still starts there."""
        return self.chain if self.chain[:1] == [self.url] else [self.url, *self.chain]


class _Lookup(Mapping[str, Sequence[str]]):
    """DNS answers, requested only after the judge allowed the name."""

    def __init__(self, resolve: Callable[[str], Sequence[str]]) -> None:
        self._resolve = resolve

    def __getitem__(self, host: str) -> Sequence[str]:
        try:
            return self._resolve(host)
        except CoilclawError as error:
            raise KeyError(host) from error

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def check_row(row: bytes, listing: Listing, resolve: Callable[[str], Sequence[str]]) -> EgressVerdict:
    """Judge one row; a row that cannot be parsed strictly is a block, never an error."""
    if len(row) > MAX_ROW:
        return EgressVerdict("", "block", "BAD_ROW", f"a row has at most {MAX_ROW} bytes", None)
    try:
        value = parse_object(row)
    except NotCanonical as error:
        return EgressVerdict("", "block", "BAD_ROW", str(error), None)
    try:
        asked = msgspec.convert(value, CheckRow)
    except msgspec.ValidationError as error:
        url = value.get("url")
        return EgressVerdict(url if isinstance(url, str) else "", "block", "BAD_ROW", str(error), None)
    answers = _Lookup(resolve) if asked.answers is None else {h.lower(): a for h, a in asked.answers.items()}
    return judge_chain(asked.hops(), asked.principal, listing, answers)
