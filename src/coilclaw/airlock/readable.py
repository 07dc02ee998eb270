"""A fetched page or mail as text for the model. The parsing happens in a child with hard limits (see extract.py)."""

from pathlib import Path

from coilclaw.packets.errors import ToolError
from coilclaw.packets.mail import MailRead, TextRead

MAX_HTML = 4 << 20
_WALL_SECONDS = 10.0
_MAIL_SECONDS = 25.0
_TEXTUAL = ("text/", "application/json", "application/xml", "application/xhtml+xml", "application/javascript")
_TEXTUAL_ENDS = ("+json", "+xml", "/x-ndjson", "/yaml", "/x-yaml", "/toml")


def readable_text(html: bytes, content_type: str, *, max_bytes: int = 50_000) -> str:
    """Title and readable text, at most `max_bytes`; nothing is executed or fetched. Blocking: call it in a thread."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind and not kind.startswith(_TEXTUAL) and not kind.endswith(_TEXTUAL_ENDS):
        raise ToolError(f"The response is {kind[:60]}, not text.", code="NOT_TEXT", remedy="Open a page instead.")
    said = _read_aside("extract.py", (_printable(content_type), str(max_bytes)), html[:MAX_HTML], _WALL_SECONDS)
    return said.decode("utf-8", "replace")


def read_mail(message: bytes, *, max_bytes: int) -> MailRead:
    """A message as Google gave it (its JSON, format raw), with at most so much text. Blocking: call it in a thread."""
    import msgspec

    said = _read_aside("extract_mail.py", (str(max_bytes),), message, _MAIL_SECONDS)
    try:
        return msgspec.json.decode(said, type=MailRead)
    except msgspec.DecodeError as error:
        raise _unreadable("mail") from error


def read_texts(texts: list[str], *, max_bytes: int) -> list[TextRead]:
    """Texts that may be HTML, as a person would see them; at most so much of each. Blocking: call it in a thread."""
    import msgspec

    given = msgspec.json.encode({"texts": texts})
    said = _read_aside("extract_mail.py", (str(max_bytes),), given, _MAIL_SECONDS)
    try:
        return msgspec.json.decode(said, type=list[TextRead])
    except msgspec.DecodeError as error:
        raise _unreadable("mail") from error


def _read_aside(program: str, options: tuple[str, ...], data: bytes, seconds: float) -> bytes:
    """What a child makes of hostile bytes."""
    import subprocess
    import sys
    from importlib.util import find_spec

    parser = find_spec("selectolax")
    if parser is None or parser.origin is None:
        raise ToolError("The page reader is not installed.", code="UNREADABLE", remedy="Install selectolax.")
    path = str(Path(__file__).with_name(program))
    try:
        ended = subprocess.run(
            [sys.executable, "-I", "-B", path, *options, _home(parser.origin)],
            input=data,
            capture_output=True,
            timeout=seconds,
            env={},
            cwd="/",
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _unreadable() from error
    if ended.returncode != 0:
        raise _unreadable("page" if program == "extract.py" else "mail")
    return ended.stdout


def _home(origin: str) -> str:
    """The folder of a package: the isolated child would not find one on a custom search path."""
    return str(Path(origin).parent.parent)


def _printable(text: str) -> str:
    """Header text that is safe in an argument list."""
    return "".join(char for char in text[:200] if " " <= char <= "~")


def _unreadable(what: str = "page") -> ToolError:
    remedy = "Try another page or a plainer view." if what == "page" else "Open it in the mailbox itself."
    return ToolError(f"The {what} could not be read within its limits.", code="UNREADABLE", remedy=remedy)
