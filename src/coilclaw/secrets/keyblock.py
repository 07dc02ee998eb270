"""Private keys in blocks: PEM, OpenSSH, PGP, SSH2 and PuTTY, terminated or not, on lines or escaped into one."""

import re

from coilclaw.secrets.labels import mark
from coilclaw.secrets.stream_engine import Hit, Window

_PEM_HEAD = re.compile(r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_PEM_TITLE = re.compile(r"[A-Z0-9 -]{0,96}")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,48}-----")
_SSH2_END = re.compile(r"---- END [A-Z0-9 ]{0,48}----")
_PUTTY_END = re.compile(r"Private-MAC: ?[0-9a-f]{16,64}(?=[^0-9a-f])")
_BLANKS = re.compile(r"[ \t]*")
_BASE64_RUN = re.compile(r"[A-Za-z0-9+/=]*")
_SLASHES = re.compile(r"\\*")
_PEM_WORD = 20


def key_block(window: Window, at: int) -> Hit | None:
    """The block whose title is here, if it is a block and not just its name."""
    if window.text[at] == "P":
        return Hit(at, at + len("Private-Lines:"), mark("private_key"), _PUTTY_END)
    return _pem(window, at)


def _pem(window: Window, at: int) -> Hit | None:
    """A private key block: everything from its title to the end line or the end of the text is redacted."""
    dashes = 5 if window.text.startswith("-----", at) else 4
    title = window.run(_PEM_TITLE, at)
    head = _PEM_HEAD.match(window.text, at, title)
    if head is None:
        return None
    until = _PEM_END if dashes == 5 else _SSH2_END
    hit = Hit(at, head.end(), mark("private_key"), until)
    follows = window.char(head.end())
    if follows in ("", "\r", "\n") or follows.isalnum():
        return hit
    if follows == "\\":
        letter = window.char(window.run(_SLASHES, head.end()))
        return hit if letter in ("", "n", "r", "\r", "\n") else None
    if follows not in " \t":
        return None  # code or prose that names the line, as in: if "-----BEGIN …-----" in text
    start = window.run(_BLANKS, head.end())
    if window.char(start) in ("", "\r", "\n"):
        return hit
    end = window.run(_BASE64_RUN, start)
    return hit if end - start >= _PEM_WORD or end >= len(window.text) else None
