"""Code in an answer has colours, and every character it had before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.cli.highlight import ADDED, COMMENT, KEYWORD, NUMBER, REMOVED, STRING, Highlighter


def coloured(language, *lines):
    """The pieces of some lines that have a colour."""
    highlighter = Highlighter(language)
    return [(text, style) for line in lines for text, style in highlighter.line(line) if style]


@pytest.mark.parametrize(
    ("language", "line", "found"),
    [
        ("python", "def f(x=0x1F): # don't", [("def", KEYWORD), ("0x1F", NUMBER), ("# don't", COMMENT)]),
        ("Py", "x = 'it\\'s'", [("'it\\'s'", STRING)]),
        ("sh", "echo a#b # c", [("echo", KEYWORD), ("# c", COMMENT)]),
        ("rust", "fn f<'a>(x: &'a str) -> 'b'", [("fn", KEYWORD), ("'b'", STRING)]),
        ("sql", "SELECT 1 -- all", [("SELECT", KEYWORD), ("1", NUMBER), ("-- all", COMMENT)]),
        ("json", '{"a": true}', [('"a"', STRING), ("true", KEYWORD)]),
        ("diff", "+new", [("+new", ADDED)]),
        ("diff", "-old", [("-old", REMOVED)]),
        ("diff", "--- a", []),
        ("html", "<b>don't</b>", [("<b", KEYWORD), (">", KEYWORD), ("</b", KEYWORD), (">", KEYWORD)]),
        ("klingon", "def f(): pass", []),
        ("", "def f(): pass", []),
    ],
)
def test_a_line_has_its_colours(language, line, found):
    assert coloured(language, line) == found


def test_what_a_line_opens_another_one_closes():
    assert coloured("python", 'x = """one', "def two", 'three""" + 1') == [
        ('"""', STRING),
        ("one", STRING),
        ("def two", STRING),
        ('three"""', STRING),
        ("1", NUMBER),
    ]
    assert coloured("c", "/* one", "two */ if") == [
        ("/*", COMMENT),
        (" one", COMMENT),
        ("two */", COMMENT),
        ("if", KEYWORD),
    ]


@given(
    st.sampled_from(["python", "sh", "ts", "go", "sql", "yaml", "css", "html", "diff", "?"]),
    st.lists(st.text(alphabet="ab1 '\"`#/*-<>!\\.,;+@é漢")),
)
def test_no_character_is_lost_or_added(language, lines):
    highlighter = Highlighter(language)
    for line in lines:
        assert "".join(text for text, _ in highlighter.line(line)) == line
