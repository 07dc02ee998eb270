"""What moves at a terminal is gone without trace, and what is said is there whole, at every width."""

import io
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.cli.live import Live, asking, moving
from coilclaw.cli.markdown import Markdown
from coilclaw.cli.screen_pages import cells

STYLE = re.compile(r"\x1b\[\d*m")
ANSWER = """# Done

This is **bold** and `code`, see <file> and https://example.org/a/path/that/is/long.

- one **and** two
  1. nested

```python
print("x")
```

| name | value |
|---|---|
| bcd | 漢字 |

> quoted
"""


def plain(text: str) -> str:
    return STYLE.sub("", text)


def rendered(text: str, columns: int) -> list[str]:
    markdown = Markdown()
    rows = [row for line in text.split("\n") for row in markdown.line(line, columns)]
    return [*rows, *markdown.close(columns)]


class Pane(io.StringIO):
    """A terminal that does not tell its size."""

    encoding = "utf-8"  # pyright: ignore[reportAssignmentType]

    def fileno(self) -> int:
        raise OSError

    def isatty(self) -> bool:
        return True


class AsciiPane(Pane):
    encoding = "ascii"  # pyright: ignore[reportAssignmentType]


@pytest.mark.parametrize("columns", [19, 59, 199])
def test_an_answer_fits_and_loses_no_word(columns):
    rows = rendered(ANSWER, columns)
    assert max(sum(map(cells, plain(row))) for row in rows) <= columns
    words = "".join("".join(map(plain, rows)).split())
    for word in ("Done", "bold", "code", "<file>", "https://example.org/a/path/that/is/long.", "nested", "漢字"):
        assert word in words


@given(st.text(alphabet=st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs"))), st.integers(4, 80))
def test_only_signs_of_markdown_are_taken_away(text, columns):
    kept = "".join(plain("".join(rendered(text, columns))).split())
    for character in set("".join(text.split())) - set("#*`|-+:>~•│"):
        assert character in kept


def test_an_answer_is_in_styles_of_its_own_and_no_other_sequence():
    shown = "".join(rendered(ANSWER, 60))
    assert "\x1b[1mDone\x1b[0m" in shown
    assert "\x1b" not in plain(shown)


@pytest.mark.parametrize(("line", "shown"), [
    ("**`calc`** is *quite* old", "\x1b[1m\x1b[36mcalc\x1b[0m is \x1b[3mquite\x1b[0m old"),
    ("see [the docs](https://example.org/a) now", "see the docs \x1b[2m(https://example.org/a)\x1b[0m now"),
    ("[https://example.org](https://example.org)", "https://example.org"),
    ("# Use `x`", "\x1b[1mUse\x1b[0m \x1b[1m\x1b[36mx\x1b[0m"),
    *((line, line) for line in ("a/*.py, *.md and 2 * 3 * 4", "*.py,*.md", "a*b*c", "[x](javascript:y)", "_a_")),
])  # fmt: skip
def test_emphasis_and_links_are_shown_as_such_and_nothing_else_is_taken_for_them(line, shown):
    assert "".join(rendered(line, 80)) == shown


def test_the_cells_of_a_table_are_as_wide_as_they_are_shown():
    assert [plain(row) for row in rendered("| file | uses |\n|---|---|\n| `a.py` | **1** |\n| b | 2 |", 80)] == [
        "file  uses", "a.py  1", "b     2",
    ]  # fmt: skip


def test_what_moves_makes_way_for_what_stays():
    pane = Pane()
    live = Live(pane, lambda: "12 tokens")
    live.event("tool_requested", {"what": "Run `make`."})
    live.output("one\ntwo\n")
    live.draw()
    assert "two" in pane.getvalue()
    assert "Run `make` · 0 s · 12 tokens" in pane.getvalue()
    live.other(pane, "✓ said by somebody else\n")
    before, _, after = pane.getvalue().partition("✓")
    assert before.endswith("\r\x1b[2A\x1b[J"), "three rows are taken back"
    live.stop()
    assert "\x1b" not in after


def test_the_status_line_says_that_a_busy_model_is_waited_for():
    pane = Pane()
    live = Live(pane, lambda: "")
    live.event("model_waiting", {"message": "waiting 30 s: busy"})
    live.draw()
    assert "waiting 30 s: busy" in pane.getvalue()
    live.answer("Here")
    live.draw()
    assert "thinking" in pane.getvalue()


def test_nothing_moves_behind_a_prompt():
    pane = Pane()
    live = Live(pane, lambda: "")
    live.other(pane, "Approve? ")
    live.draw()
    assert pane.getvalue() == "Approve? "
    live.event("tool_approved", {})
    live.draw()
    assert "thinking" in pane.getvalue()


async def test_nothing_moves_and_nobody_else_speaks_while_the_owner_answers(monkeypatch):
    pane = Pane()
    monkeypatch.setattr("sys.stdout", pane)
    monkeypatch.setattr("sys.stderr", pane)
    with asking():  # nothing moves here anyway
        sys.stderr.write("")
    with moving(lambda: "") as live:
        live.draw()
        sys.stderr.write("Approve? ")
        with asking():
            seen = pane.getvalue()
            live.output("the last line of a command in the background\n")
            live.event("tool_completed", {})
            sys.stderr.write("It ended.\n")
            live.answer("a line\n")
            live.draw()
            assert pane.getvalue() == seen
        live.draw()
        after = plain(pane.getvalue()[len(seen) :])
        places = [after.find(word) for word in ("in the background", "It ended.", "a line", "thinking")]
        assert -1 not in places
        assert places == sorted(places)


def test_an_unfinished_line_is_finished_before_anything_else_is_said():
    pane = Pane()
    live = Live(pane, lambda: "")
    live.answer("first line\nhalf a")
    live.draw()
    live.other(pane, "card\n")
    assert re.sub(r"\r|\x1b\[[0-9;]*[A-Zm]", "", pane.getvalue()).endswith("half a\ncard\n")


def test_output_that_would_move_the_cursor_is_shown_by_number():
    pane = Pane()
    live = Live(pane, lambda: "")
    live.event("tool_requested", {"what": "Run \x1b[2J\u202e."})
    live.output("a\x1b[2Jb\rc")
    live.draw()
    live.stop()
    assert "\x1b[2J" not in pane.getvalue()
    assert "\u202e" not in pane.getvalue()
    assert "a⟨U+001B⟩[2Jb⟨U+000D⟩c" in pane.getvalue()


def test_a_hostile_title_neither_breaks_the_status_line_nor_pushes_the_figures_off_it():
    pane = Pane()
    live = Live(pane, lambda: "12 tokens")
    live.event("tool_requested", {"what": "Write a\nb\r\x1b]0;owned\x07\u202e\u2028" + "x" * 500})
    live.draw()
    (row,) = plain(pane.getvalue()).split("\n")
    assert row.isprintable(), row
    assert "⟨U+202E⟩" in row
    assert row.endswith(" · 0 s · 12 tokens")
    assert sum(map(cells, row)) < 80


def test_a_terminal_that_knows_few_letters_gets_no_other():
    pane = AsciiPane()
    live = Live(pane, lambda: "")
    live.answer("- é\n漢")
    live.output("ü")
    live.draw()
    live.stop()
    assert pane.getvalue().isascii()
