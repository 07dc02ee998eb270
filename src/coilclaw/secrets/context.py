"""Third layer: what a header, a field, a flag, a query or an address says about the value beside it."""

from collections.abc import Callable

from coilclaw.secrets.stream_engine import Anchor, Hit, Window, places


def _anchors() -> tuple[Anchor, ...]:
    """Per keyword one telling letter, in both cases: a literal first character is found fastest."""
    letters = {
        "k": r"(?<=[\w .-]k)(?=ey)(?!ey[bw])|(?<=tok)(?=en)(?!en[si])|(?<=cook)(?=ie)(?!ies)",
        "p": "(?=ass|wd|(?:w|at|in)(?![a-z]))(?!ass(?:ed|ing|en|iv|ion|ag|port))|(?<=otp)",
        "c": "(?<=sec)(?=ret)|(?=red)(?!redit)|(?<=[gypanse][ _-]c)(?=ode)|(?<=[gypanse]c)(?=ode)",
        "u": "(?<=au)(?=th(?!or(?!iz)))|(?=0026)",
        "b": r"(?=earer|asic)|(?<=ied\sb)(?=y)",
    }
    sources = [f"{case}(?i:{around})" for letter, around in letters.items() for case in (letter, letter.upper())]
    names = "(?=(?i:sig|key=|code=|x-amz-|x-goog-|jwt=|sid=|session|auth=|ticket=|otp=|st=|sas=|k=|hmac=|assertion=))"
    sources += [
        # A colon and two slashes before what may be a user name and a password: not before a host, a port, a path.
        r":(?=[/\\](?:\\*/){1,2}[^\s\"'`/?#\\:@]{0,256}+(?:[@\[]|\Z|:(?!\d{0,5}+[/?#\s\"'`])))",
        "[?]" + names,
        "&" + names,
        "#" + names,
        r"-(?<=\s-)(?=u|-user)",
    ]
    return tuple(map(Anchor.of, sources))


class Context:
    """The layer of headers and fields. Holds no state but its compiled patterns, made when first needed."""

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
        """Whether a secret stands beside this anchor."""
        if self._judge is None:
            from coilclaw.secrets.judge import judge  # most texts have no anchor and never pay for its patterns

            self._judge = judge
        return self._judge(window, at)
