"""Title and readable text of one page, as a program: HTML on standard input, text on standard output.

It runs as a child process with hard limits, because it reads hostile bytes with a parser written in C and because
such parsers can be driven into quadratic time. It imports none of our code, opens nothing and starts nothing.
"""

import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

CPU_SECONDS = 3
MEMORY_BYTES = 1 << 30

_DROPPED = frozenset(
    {"script", "style", "noscript", "template", "iframe", "frame", "frameset", "noframes", "object", "embed", "applet"}
    | {"param", "svg", "math", "canvas", "img", "picture", "video", "audio", "source", "track", "map", "area", "link"}
    | {"meta", "base", "head", "input", "select", "option", "datalist", "button", "textarea", "nav", "footer", "aside"}
    | {"dialog", "menu", "noembed", "progress", "meter", "rp"}
)
_BLOCKS = frozenset(
    {"address", "article", "blockquote", "body", "br", "center", "caption", "dd", "details", "div", "dl", "dt", "form"}
    | {"fieldset", "figcaption", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "html", "li", "main"}
    | {"ol", "p", "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul"}
)
_CELLS = frozenset({"td", "th"})
_HIDDEN_STYLE = re.compile(
    r"(?<![\w-])(?:"  # a property of its own: `border-width:0` and `backface-visibility:hidden` hide nothing
    r"display:none|visibility:(?:hidden|collapse)|opacity:(?:0+(?:\.0\d*)?|\.0\d*)%?(?:;|!|$)"
    r"|(?:left|right|top|bottom|text-indent|margin(?:-left|-top)?):-\d{3,}|clip:rect\(0|clip-path:inset\((?:50|100)%"
    r"|transform:scale\(0|(?:max-)?(?:height|width):0(?:px)?(?:;|!|$)|content-visibility:hidden"
    r"|zoom:0(?:\.0\d*)?%?(?:;|!|$))"
)
_NO_SIZE = re.compile(r"font-size:0*\.?0*[a-z%]*(?:;|!|$)")
_HIDDEN_CLASS = re.compile(r"(?:^|\s)(?:sr-only|screen-reader-text|screen-reader-only|visually-?hidden|d-none)(?:\s|$)")
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]{2,40})""", re.IGNORECASE)
_ENCODINGS = re.compile(
    r"(?:utf-?8|utf-?16(?:-?[lb]e)?|us-ascii|ascii|latin-?1|iso-?8859-\d{1,2}|windows-125\d|cp125\d|koi8-[ru]|shift[_-]jis"
    r"|euc-(?:jp|kr)|iso-2022-jp|big5|gbk|gb2312|gb18030|macintosh)\Z"
)
_ENOUGH = 200


def main() -> None:
    """Read argv (content type, cap, where the parser is installed) and standard input, write the text."""
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    content_type, cap = sys.argv[1], int(sys.argv[2])
    sys.path.append(sys.argv[3])
    sys.stdout.buffer.write(extract(sys.stdin.buffer.read(), content_type, cap).encode())


def extract(data: bytes, content_type: str, max_bytes: int) -> str:
    """Title and text of a page, or the cleaned text of anything else; at most `max_bytes` of UTF-8."""
    kind = content_type.partition(";")[0].strip().lower()
    text = clean(decode(data, content_type))
    if kind in ("", "text/html", "application/xhtml+xml"):
        text = tidy(clean(_page(text)))
    return _capped(text.strip("\n"), max_bytes)


def decode(data: bytes, content_type: str) -> str:
    """Decode by byte-order mark, header, meta tag, or else UTF-8; invalid bytes are replaced."""
    for mark, name in ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace")
    named = re.search(r"charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{2,40})", content_type, re.IGNORECASE)
    meta = _CHARSET.search(data[:4096])
    name = (named[1] if named else meta[1].decode("ascii") if meta else "utf-8").lower()
    if not _ENCODINGS.match(name):
        name = "utf-8"
    try:
        return data.decode(name, "replace")
    except LookupError:
        return data.decode("utf-8", "replace")


def is_known(charset: str) -> bool:
    """Whether text in it is decoded by it; anything else is read as UTF-8."""
    return bool(_ENCODINGS.match(charset))


def fits(data: bytes, charset: str) -> bool:
    """Whether the bytes are valid in that character set."""
    try:
        data.decode(charset)
    except (ValueError, LookupError):
        return False
    return True


def clean(text: str) -> str:
    """Remove control, format, private and unassigned characters: terminal escapes, bidi, zero-width, invisible tags."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(c for c in text if c in "\n\t" or (" " <= c <= "~") or (c > "~" and _visible(c)))


def tidy(text: str) -> str:
    """Collapse blanks and blank lines; <pre> content has its indentation as no-break spaces until here."""
    lines = (re.sub(r"[ \t]+", " ", line).strip(" ").replace("\xa0", " ").rstrip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def _visible(char: str) -> bool:
    return unicodedata.category(char)[0] != "C" and not "\ufe00" <= char <= "\ufe0f" and not char >= "\U000e0000"


def _capped(text: str, max_bytes: int) -> str:
    data = text.encode("utf-8", "replace")
    return text if len(data) <= max_bytes else data[:max_bytes].decode("utf-8", "ignore")


def _page(html: str) -> str:
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(html)
    heading = tree.css_first("head > title") or tree.css_first("title")
    title = " ".join(heading.text().split()) if heading else ""
    return f"{title}\n\n{_main_text(tree)}" if title else _main_text(tree)


def _main_text(tree: "LexborHTMLParser") -> str:
    """The text of the main part if the page marks a non-empty one, else of the whole body."""
    for mark in ("main", "[role=main]", "article"):
        found = tree.css(mark)
        if len(found) == 1:
            text = "".join(pieces(found[0], _unseen))
            if len(text.strip()) >= _ENOUGH and not _inside_hidden(found[0]):
                return text
    return "".join(pieces(tree.body, _unseen)) if tree.body else ""


def _inside_hidden(node: "LexborNode") -> bool:
    above = node.parent
    while above is not None:
        if _unseen(above):
            return True
        above = above.parent
    return False


def pieces(
    root: "LexborNode",
    hidden: "Callable[[LexborNode], bool]",
    drop: "Callable[[LexborNode], None]" = lambda _: None,
    after: "Callable[[LexborNode], str]" = lambda _: "",
    kept: "frozenset[str]" = frozenset(),
) -> Iterator[str]:
    """Text in document order, without recursion: a page may be nested arbitrarily deep. `drop` is told what is left
    out; `after` gives what follows an element's text; `kept` are elements that pages have around what they say."""
    node: LexborNode | None = root
    verbatim = 0
    while node is not None:
        tag = node.tag or ""
        if node.is_text_node and hidden(node):
            drop(node)
        elif node.is_text_node:
            text = node.text_content or ""
            yield re.sub(r"[ \t]", "\xa0", text) if verbatim else re.sub(r"\s+", " ", text)
        elif node.is_element_node and ((tag in _DROPPED and tag not in kept) or hidden(node)):
            drop(node)
        elif node.is_element_node:
            yield _around(tag, opening=True)
            if node.first_child is not None:
                verbatim += tag == "pre"
                node = node.first_child
                continue
        while node is not None and node.next is None and node.mem_id != root.mem_id:
            node = node.parent
            if node is not None:
                verbatim -= node.tag == "pre"
                yield after(node) + _around(node.tag or "", opening=False)
        node = node.next if node is not None and node.mem_id != root.mem_id else None


def _around(tag: str, *, opening: bool) -> str:
    if tag == "li" and opening:
        return "\n- "
    if tag in _CELLS:
        return "\t"
    return "\n" if tag in _BLOCKS else ""


def _unseen(node: "LexborNode") -> bool:
    """Whether a page's reader sees nothing of it. In mail, where pieces of text within have sizes of their own, the
    size decides piece by piece."""
    style = node.attributes.get("style") or "" if node.is_element_node else ""
    return is_hidden(node) or bool(_NO_SIZE.search("".join(style.split()).lower()))


def is_hidden(node: "LexborNode") -> bool:
    """Whether an element says that neither it nor anything within it is shown."""
    if not node.is_element_node:
        return False
    attributes = node.attributes
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    style = re.sub(r"/\*.*?\*/", "", attributes.get("style") or "").lower()
    return hides(style) or bool(_HIDDEN_CLASS.search(attributes.get("class") or ""))


def hides(style: str) -> bool:
    """Whether a style, in lower case, keeps everything in its element from being seen."""
    return bool(_HIDDEN_STYLE.search("".join(style.split())))


if __name__ == "__main__":
    main()
