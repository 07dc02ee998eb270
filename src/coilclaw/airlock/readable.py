"""A fetched page as text for the model. The parsing happens in a child with hard limits (see extract.py)."""

from pathlib import Path

from coilclaw.packets.errors import ToolError

MAX_HTML = 4 << 20
_WALL_SECONDS = 10.0
_TEXTUAL = ("text/", "application/json", "application/xml", "application/xhtml+xml", "application/javascript")
_TEXTUAL_ENDS = ("+json", "+xml", "/x-ndjson", "/yaml", "/x-yaml", "/toml")


def readable_text(html: bytes, content_type: str, *, max_bytes: int = 50_000) -> str:
    """Title and readable text, at most `max_bytes`; nothing is executed or fetched. Blocking: call it in a thread."""
    import subprocess
    import sys
    from importlib.util import find_spec

    kind = content_type.partition(";")[0].strip().lower()
    if kind and not kind.startswith(_TEXTUAL) and not kind.endswith(_TEXTUAL_ENDS):
        raise ToolError(f"The response is {kind[:60]}, not text.", code="NOT_TEXT", remedy="Open a page instead.")
    parser = find_spec("selectolax")
    if parser is None or parser.origin is None:
        raise ToolError("The page reader is not installed.", code="UNREADABLE", remedy="Install selectolax.")
    program = str(Path(__file__).with_name("extract.py"))
    try:
        ended = subprocess.run(
            [sys.executable, "-I", "-B", program, _printable(content_type), str(max_bytes), _home(parser.origin)],
            input=html[:MAX_HTML],
            capture_output=True,
            timeout=_WALL_SECONDS,
            env={},
            cwd="/",
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _unreadable() from error
    if ended.returncode != 0:
        raise _unreadable()
    return ended.stdout.decode("utf-8", "replace")


def _home(origin: str) -> str:
    """The folder of a package: the isolated child would not find one on a custom search path."""
    return str(Path(origin).parent.parent)


def _printable(text: str) -> str:
    """Header text that is safe in an argument list."""
    return "".join(char for char in text[:200] if " " <= char <= "~")


def _unreadable() -> ToolError:
    return ToolError(
        "The page could not be read within its limits.", code="UNREADABLE", remedy="Try another page or a plainer view."
    )
