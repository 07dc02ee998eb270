"""Draw the README's terminal picture: real commands in a fresh home, at a real terminal, saved as SVG.

Run it with `.venv/bin/python scripts/picture.py`; it writes docs/images/first-run.svg. Times and receipt ids differ
from run to run, so the picture is made by hand when the output changes, not checked.
"""

import fcntl
import io
import os
import pty
import re
import select
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "first-run.svg"
COILCLAW = Path(sys.executable).with_name("coilclaw")
COLUMNS = 104
SECONDS = 60.0
PROMPT = b"[?] "

SCENES = (
    ("coilclaw agent -m 'What files are here?'", ""),
    ("coilclaw agent -m 'write bread and milk to shopping.md'", "y\n"),
    ('coilclaw tool run shell --json \'{"command": "rm -rf ~"}\'', ""),
    ("coilclaw receipt list", ""),
    ("coilclaw receipt verify", ""),
)
"""What is typed, and what is answered when the terminal asks."""

THEME = TerminalTheme(
    (24, 27, 33),
    (214, 218, 226),
    [(60, 64, 72), (229, 110, 110), (134, 192, 126), (222, 184, 106), (112, 164, 222), (190, 138, 208), (96, 186, 190),
     (214, 218, 226)],
    [(98, 104, 114), (240, 134, 134), (160, 212, 150), (236, 204, 130), (140, 186, 238), (208, 160, 224),
     (128, 206, 210), (240, 242, 246)],
)  # fmt: skip

FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>A first run of CoilClaw in a terminal</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""
"""Like rich's own, without the fonts it fetches from the network."""


def at_a_terminal(argv: list[str], answer: str, environment: dict[str, str]) -> str:
    """What a command shows on a terminal of its own; `answer` is typed when it asks."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    process = subprocess.Popen(
        argv, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True, close_fds=True
    )
    os.close(theirs)
    seen = b""
    deadline = time.monotonic() + SECONDS
    try:
        while time.monotonic() < deadline:
            if not select.select([ours], [], [], 0.5)[0]:
                continue
            try:
                data = os.read(ours, 65536)
            except OSError:  # the other side is gone
                break
            if not data:
                break
            seen += data
            if answer and seen.endswith(PROMPT):
                os.write(ours, answer.encode())
                answer = ""
        else:
            process.kill()
    finally:
        process.wait(timeout=SECONDS)
        os.close(ours)
    return seen.decode("utf-8", "replace").replace("\r\n", "\n")


def settled(output: str) -> str:
    """What stands there in the end: an answer that comes in is drawn over itself."""
    shown, *redrawn = re.split(r"\r(?:\x1b\[(\d+)A)?\x1b\[J", output)
    for up, text in zip(redrawn[::2], redrawn[1::2], strict=True):
        lines = shown.split("\n")
        shown = "\n".join([*lines[: len(lines) - 1 - int(up or 0)], text])
    return shown


def play(home: Path) -> Text:
    """Every scene in a fresh home, as one text with its colours."""
    environment = {
        "HOME": str(home), "PATH": f"{COILCLAW.parent}:/usr/bin:/bin", "TERM": "xterm-256color", "LANG": "C.UTF-8",
        "COLUMNS": str(COLUMNS), "GIT_CONFIG_NOSYSTEM": "1",
    }  # fmt: skip
    subprocess.run([COILCLAW, "init", "--quiet"], env=environment, check=True, stdout=subprocess.DEVNULL)
    shown = Text()
    for typed, answer in SCENES:
        output = at_a_terminal(shlex.split(typed), answer, environment)
        if "Traceback" in output:
            raise SystemExit(f"{typed} broke:\n{output}")
        shown.append("$ ", style="green")
        shown.append(f"{typed}\n", style="bold")
        shown.append_text(Text.from_ansi(settled(output).rstrip("\n")))
        shown.append("\n\n")
    shown.rstrip()
    return shown


def main() -> int:
    """Write the picture."""
    with tempfile.TemporaryDirectory(prefix="coilclaw-picture-") as folder:
        shown = play(Path(folder))
    console = Console(width=COLUMNS, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(shown, soft_wrap=False)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    svg = console.export_svg(title="CoilClaw", theme=THEME, code_format=FORMAT, unique_id="coilclaw")
    PICTURE.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
