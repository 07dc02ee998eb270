"""Third layer: what a header, a field, a flag, a query or an address says about the value next to it."""

from collections.abc import Callable, Iterator

from coilclaw.secrets.fingerprints import Sets, either_case
from coilclaw.secrets.stream_engine import Anchor, Anchors, Hit, Window


def _anchors() -> tuple[Anchor, ...]:
    """One distinctive letter per keyword, in both cases: a literal first character is found fastest."""
    letters = {
        "k": ("ke ki", r"(?<=[\w .-]k)(?=ey)(?!ey[bw])|(?<=tok)(?=en)(?!en[si])|(?<=cook)(?=ie)(?!ies)"),
        "p": ("pa pw pi tp", "(?=ass|wd|(?:w|at|in)(?![a-z]))(?!ass(?:ed|ing|en|iv|ion|ag|port))|(?<=otp)"),
        "c": ("cr co", "(?<=sec)(?=ret)|(?=red)(?!redit)|(?<=[gypanse][ _-]c)(?=ode)|(?<=[gypanse]c)(?=ode)"),
        "u": ("ut u0", "(?<=au)(?=th(?!or(?!iz)))|(?=0026)"),
        "b": ("be ba by", r"(?=earer|asic)|(?<=ied\sb)(?=y)"),
    }
    names = "(?=(?i:sig|key=|code=|x-amz-|x-goog-|jwt=|sid=|session|auth=|ticket=|otp=|st=|sas=|k=|hmac=|assertion=))"
    return (
        *(
            Anchor(f"{case}(?i:{around})", *_spellings(words, case), prints=_prints(letter, case))
            for letter, (words, around) in letters.items()
            for case in (letter, letter.upper())
        ),
        # A colon and two slashes before what may be a user name and a password: not before a host, a port, a path.
        Anchor(
            r":(?=[/\\](?:\\*/){1,2}[^\s\"'`/?#\\:@]{0,256}+(?:[@\[]|\Z|:(?!\d{0,5}+[/?#\s\"'`])))",
            ":/", ":\\",
            prints=((6, 0, (":", "/\\", "/\\")),),
        ),
        *(Anchor(f"[{sign}]{names}", sign, prints=((6, 0, (sign, *_NAMES)),)) for sign in "?&#"),
        Anchor(r"-(?<=\s-)(?=u|-user)", "-u", prints=((5, 1, (_BLANKS, "-", "u-")),)),
    )  # fmt: skip


_BLANKS = " \t\n\r\f\v"
_NO_LETTER = "".join(chr(code) for code in range(128) if not chr(code).isalpha())
_NAMES = either_case("skcxjatoh"), either_case("ieo-wuta=ms")
"""How the names begin that a query gives secrets by."""
_PRINTS: dict[str, tuple[tuple[int, int, Sets], ...]] = {
    "k": ((0, 0, ("k", "ei", "yne")),),
    "p": ((1, 0, ("p", "awi", "sdtn" + _NO_LETTER)), (7, 2, ("o", "t", "p"))),
    "c": ((2, 0, ("c", "ro", "ed")),),
    "u": ((3, 0, ("u", "t0", "h0")),),
    "b": ((4, 0, ("b", "ea", "as")), (5, 1, (_BLANKS, "b", "y"))),
}


def _prints(letter: str, case: str) -> tuple[tuple[int, int, Sets], ...]:
    """What stands around this letter of a keyword, in whatever case the others are."""
    return tuple(
        (bucket, shift, tuple(case if at == shift else either_case(each) for at, each in enumerate(sets)))
        for bucket, shift, sets in _PRINTS[letter]
    )


def _spellings(pairs: str, letter: str) -> Iterator[str]:
    """Every spelling of these pairs of letters that holds the letter as it is."""
    for first, second in pairs.split():
        for pair in (first + second, first.upper() + second, first + second.upper(), first.upper() + second.upper()):
            if letter in pair:
                yield pair


class Context:
    """The layer of headers and fields. Its only state is its patterns, compiled when first needed."""

    word = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-:/\\?&#="

    def __init__(self) -> None:
        self._anchors: Anchors | None = None
        self._judge: Callable[[Window, int], Hit | None] | None = None

    def anchors(self, text: str, at: int) -> list[int]:
        """One letter of each keyword, and the signs of addresses and queries."""
        if self._anchors is None:
            self._anchors = Anchors(_anchors())
        return self._anchors.places(text, at)

    def decide(self, window: Window, at: int) -> Hit | None:
        """The secret next to this anchor, if any."""
        if self._judge is None:
            from coilclaw.secrets.judge import judge  # most texts have no anchor and never need its patterns

            self._judge = judge
        return self._judge(window, at)
