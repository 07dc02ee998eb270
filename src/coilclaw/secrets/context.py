"""Third layer: what a header, a field, a flag, a query or an address says about the value next to it."""

from collections.abc import Callable, Iterator

from coilclaw.secrets.stream_engine import Anchor, Hit, Window, places


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
            Anchor(f"{case}(?i:{around})", *_spellings(words, case))
            for letter, (words, around) in letters.items()
            for case in (letter, letter.upper())
        ),
        # A colon and two slashes before what may be a user name and a password: not before a host, a port, a path.
        Anchor(r":(?=[/\\](?:\\*/){1,2}[^\s\"'`/?#\\:@]{0,256}+(?:[@\[]|\Z|:(?!\d{0,5}+[/?#\s\"'`])))", ":/", ":\\"),
        Anchor("[?]" + names),
        Anchor("&" + names),
        Anchor("#" + names),
        Anchor(r"-(?<=\s-)(?=u|-user)", "-u"),
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
        self._anchors: tuple[Anchor, ...] | None = None
        self._judge: Callable[[Window, int], Hit | None] | None = None

    def anchors(self, text: str, at: int) -> list[int]:
        """One letter of each keyword, and the signs of addresses and queries."""
        if self._anchors is None:
            self._anchors = _anchors()
        return places(self._anchors, text, at)

    def decide(self, window: Window, at: int) -> Hit | None:
        """The secret next to this anchor, if any."""
        if self._judge is None:
            from coilclaw.secrets.judge import judge  # most texts have no anchor and never need its patterns

            self._judge = judge
        return self._judge(window, at)
