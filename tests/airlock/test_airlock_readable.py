"""Pages as text: what a reader would see, nothing that is hidden, nothing that runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.airlock.extract import clean, decode, extract
from coilclaw.airlock.readable import readable_text
from coilclaw.packets.errors import ToolError

PAGE = b"""<!doctype html><html><head><title>A &amp; B</title><style>p{color:red}</style></head><body>
<nav>Home About</nav><main><h1>Heading</h1><p>First <b>bold</b>   words.<p>Second.</p>
<ul><li>one<li>two</ul><pre><code>def f():
    return  1</code></pre><table><tr><td>a<td>b</table>
<script>alert("script")</script><noscript>no script</noscript><img src="https://t.example/p.png" alt="picture">
<template>template</template><iframe src="https://t.example/">frame</iframe><svg><text>drawing</text></svg>
</main><footer>imprint</footer></body></html>"""


def test_a_page_becomes_its_title_and_its_text() -> None:
    text = readable_text(PAGE, "text/html; charset=utf-8")
    assert text.startswith("A & B\n")
    assert "First bold words." in text
    assert "- one" in text
    assert "def f():\n    return  1" in text
    for gone in ("alert", "no script", "picture", "t.example", "template", "frame", "drawing", "imprint", "color"):
        assert gone not in text


@pytest.mark.parametrize(
    "hidden",
    [
        "<p hidden>SECRET</p>",
        '<div aria-hidden="true">SECRET</div>',
        '<p style="display:none">SECRET</p>',
        '<p style="DISPLAY : none !important">SECRET</p>',
        '<p style="dis/**/play:none">SECRET</p>',
        '<p style="visibility: hidden;color:red">SECRET</p>',
        '<p style="opacity:0">SECRET</p>',
        '<p style="font-size:0px">SECRET</p>',
        '<p style="position:absolute;left:-9999px">SECRET</p>',
        '<span class="x sr-only">SECRET</span>',
        '<div style="display:none"><p><b>SECRET</b></p></div>',
        "<dialog>SECRET</dialog>",
        "<!-- SECRET -->",
        "<textarea>SECRET</textarea>",
        '<input type="hidden" value="SECRET">',
        '<main style="display:none">' + "SECRET " * 60 + "</main>",
        "<div hidden><main>" + "SECRET " * 60 + "</main></div>",
        '<meta name="description" content="SECRET">',
        '<a href="https://x.example/SECRET" title="SECRET">link</a>',
    ],
)
def test_what_a_reader_would_not_see_is_not_there(hidden: str) -> None:
    text = extract(f"<body><p>before</p>{hidden}<p>after</p></body>".encode(), "text/html", 50_000)
    assert "SECRET" not in text
    assert "before" in text
    assert "after" in text


def test_ordinary_styles_do_not_hide_text() -> None:
    for style in ("opacity:0.5", "font-size:10px", "display:block", "left:-10px", "height:0.5em", "width:05px"):
        assert "seen" in extract(f'<p style="{style}">seen</p>'.encode(), "text/html", 100)


def test_control_bidi_zero_width_and_tag_characters_are_stripped() -> None:
    assert clean("a\x1b[31mb\x00c\u202ed\u200be\U000e0041f\ufefff\x85\u2066g\n\th") == "a[31mbcdeffg\n\th"
    assert extract(b"<p>a&#27;[2J&#x202e;&#0;b&#xE0041;", "text/html", 100) == "a[2J\ufffdb"


def test_the_text_is_capped_in_bytes_at_a_character() -> None:
    text = extract(b"<p>" + "\u00fc".encode() * 1000, "text/html", 101)
    assert text == "\u00fc" * 50


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        ("caf\u00e9".encode("latin-1"), "text/html; charset=ISO-8859-1"),
        ("caf\u00e9".encode(), "text/html"),
        ("caf\u00e9".encode("utf-16"), "text/html"),
        (b'<meta charset="windows-1252">' + "caf\u00e9".encode("cp1252"), "text/html"),
        ("caf\u00e9".encode(), "text/html; charset=rot13"),
        ("caf\u00e9".encode(), "text/html; charset=unicode_escape"),
    ],
)
def test_the_declared_encoding_is_used_when_it_is_one_of_the_webs(data: bytes, content_type: str) -> None:
    assert decode(data, content_type).endswith("caf\u00e9")


def test_plain_text_and_json_are_kept_as_they_are() -> None:
    assert readable_text(b'{\n  "a": "<b>"\n}', "application/json") == '{\n  "a": "<b>"\n}'
    assert extract(b"  x\r\n    y", "text/plain", 100) == "  x\n    y"


@pytest.mark.parametrize("kind", ["image/png", "application/pdf", "application/octet-stream", "video/mp4"])
def test_what_is_not_text_is_refused(kind: str) -> None:
    with pytest.raises(ToolError) as caught:
        readable_text(b"\x89PNG", kind)
    assert caught.value.code == "NOT_TEXT"


@given(st.binary(max_size=300))
def test_no_bytes_make_it_fail(data: bytes) -> None:
    assert len(extract(data, "text/html", 100).encode()) <= 100


@given(
    st.lists(st.sampled_from(["<p>", "</p>", "<b>", "<table>", "<td>", "<svg>", "<!--", "<script>", "x", "<li>", "</"]))
)
def test_no_broken_nesting_makes_it_fail(parts: list[str]) -> None:
    extract("".join(parts).encode(), "text/html", 1000)


@pytest.mark.slow
@pytest.mark.parametrize(
    "hostile",
    [
        b"<div>" * 200_000 + b"x",
        b"<a " + b" ".join(b"b%d=c" % number for number in range(100_000)) + b">x",
        b"<p>" + b"".join(b"<font a%d>" % number for number in range(1000)) + b"<p>a</p>" * 200_000,
    ],
    ids=["deep", "attributes", "formatting"],
)
def test_a_page_made_to_exhaust_the_parser_is_given_up_not_suffered(hostile: bytes) -> None:
    try:
        outcome = "read" if len(readable_text(hostile, "text/html")) <= 50_000 else "too long"
    except ToolError as error:
        outcome = error.code
    assert outcome in ("read", "UNREADABLE")  # a faster machine may get through it


def test_a_deep_page_is_read() -> None:
    assert readable_text(b"<div>" * 2000 + b"deep", "text/html") == "deep"
