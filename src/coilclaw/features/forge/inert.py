"""Words of others in Markdown, titles and commit messages: shown as they are, read as nothing else. Pure."""

import re

from coilclaw.packets.text import one_line, visible

TITLE_CHARACTERS = 72
PROSE_CHARACTERS = 20_000

_ACTING = str.maketrans({"<": "‹", ">": "›", "[": "(", "]": ")", "`": "'", "@": "＠", "#": "＃", "|": "¦"})
"""What makes a forge or a renderer act on a title: tags, links, mentions, references, words such as [skip ci]."""


def fenced(text: str) -> str:
    """Prose as a block that no Markdown renderer reads: the fence is longer than any run of backticks in it."""
    shown = visible(shortened(text.strip(), PROSE_CHARACTERS))
    fence = "`" * max(3, _longest_run(shown) + 1)
    return f"{fence}text\n{shown}\n{fence}"


def code(text: str) -> str:
    """A name within a line, as a code span."""
    shown = one_line(text)
    run = _longest_run(shown)
    ticks, space = "`" * (run + 1), " " * bool(run or not shown.strip())
    return f"{ticks}{space}{shown}{space}{ticks}"


def one_title(text: str, otherwise: str) -> str:
    """One short line out of any text, or `otherwise` when nothing of it is left to see."""
    line = one_line(" ".join(text.split())).translate(_ACTING).strip()
    return shortened(line or otherwise, TITLE_CHARACTERS)


def shortened(text: str, most: int) -> str:
    """The text, or its beginning with an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
