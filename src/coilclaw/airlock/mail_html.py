"""The text of an HTML mail as its reader sees it. A part of the program `extract_mail.py`, under the limits of that.

What a person would not see is left out and told: text that is not displayed, tiny, or of the colour of its ground.
Colour and size are those of the text itself: newsletters set both to nothing on what stands around it.
"""

import colorsys
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

    Colour = tuple[float, float, float, float] | str | None
    """Red, green, blue and opacity; a name that is not known; or nothing known at all, as of a picture."""

_TINY = 4.0
_ALIKE = 30
"""Colours that differ by less in red, green and blue are one to the eye."""
_FAINT = 0.1
_FAR_BACK, _FAR_ON = -100.0, 1500.0
"""Pixels to the left or above, and to the right, from which on a piece counts as off the screen."""
_LINK = 120
_SAID = frozenset({"nav", "footer", "aside", "menu", "button"})
"""Elements that a page has around what it says; in a mail they say it too."""
_NAMES = {
    "white": "ffffff",
    "ivory": "fffff0",
    "snow": "fffafa",
    "azure": "f0ffff",
    "mintcream": "f5fffa",
    "ghostwhite": "f8f8ff",
    "floralwhite": "fffaf0",
    "whitesmoke": "f5f5f5",
    "black": "000000",
    "canvas": "ffffff",
    "window": "ffffff",
    "seashell": "fff5ee",
    "lavenderblush": "fff0f5",
    "aliceblue": "f0f8ff",
    "honeydew": "f0fff0",
    "oldlace": "fdf5e6",
    "linen": "faf0e6",
    "cornsilk": "fff8dc",
    "lightyellow": "ffffe0",
    "lightcyan": "e0ffff",
    "beige": "f5f5dc",
    "lavender": "e6e6fa",
    "gainsboro": "dcdcdc",
}
_HEX = re.compile(r"#?([0-9a-f]{8}|[0-9a-f]{6}|[0-9a-f]{3,4})")
_COLOURS = re.compile(r"(?:rgb|hsl)a?\([^()]{1,60}\)|#?[\w-]+")
_NUMBERS = re.compile(r"(\d*\.?\d+)(%?)")
_SIZE = re.compile(r"(\d*\.?\d+)([a-z%]*)")
_FONT = re.compile(r"(?:^|\s)(0|\d*\.?\d+(?:px|pt|r?em|%|v[wh]))(?=[/\s]|$)")
_ESCAPE = re.compile(r"\\(?:([0-9a-f]{1,6})\s?|(.))", re.IGNORECASE)
_MATTERS = re.compile(
    r"color|background|font|display|visib|opacity|left|right|top|bottom|indent|margin|hide|clip|zoom|width|height|transform"
    r"|inset|spacing|size|filter|mask|blend|translate|scale|var\(|--"
)
_LENGTH = re.compile(r"(?<![\w.])(-?\d*\.?\d+)([a-z%]*)")
_FUNCTION = re.compile(r"(?<![a-z0-9])([a-z0-9]+)\(([^()]*)\)")
_VARIABLE = re.compile(r"(?<![\w-])(--[\w-]+)\s*:([^;{}\"'<>]{1,100})")
_USED = re.compile(r"var\(\s*(--[\w-]+)\s*(?:,([^()]*))?\)")
_MOST_VALUES = 20
_MOST_NESTED = 8
_LONGEST = 500
_OFFSETS = frozenset(
    {"left", "right", "top", "bottom", "text-indent", "translate", "inset", "inset-inline-start", "inset-block-start"}
    | {"margin", "margin-left", "margin-top", "margin-inline", "margin-inline-start", "margin-block-start"}
)
_BOX = re.compile(r"(?:max-)?(?:height|width|block-size|inline-size)\Z")
_VEILS = re.compile(r"(?:-webkit-)?(?:clip|clip-path|mask|mask-image|mix-blend-mode)\Z")
_UNVEILED = ("", "none", "auto", "normal", "inherit", "initial", "unset", "revert")
_OTHER_SCREEN = re.compile(r"max-(?:device-)?width:[1-6]?\d{1,2}px|prefers-color-scheme:dark|@mediaprint")


class _Look(NamedTuple):
    """How text in an element looks."""

    colour: "Colour"
    ground: "Colour"
    size: float
    opacity: float = 1.0
    fill: "Colour" = None
    """What text is filled with instead of its colour; None if nothing says so."""

    @property
    def unseen(self) -> bool:
        colour = self.colour if self.fill is None else self.fill
        if min(self.size / _TINY, self.opacity / _FAINT, 1.0) < 1.0:
            return True
        if isinstance(colour, tuple) and colour[3] < _FAINT:
            return True
        if isinstance(colour, tuple) and isinstance(self.ground, tuple):
            return all(abs(a - b) < _ALIKE for a, b in zip(colour[:3], self.ground[:3], strict=True))
        return self.ground is not None and colour == self.ground


_USUAL = _Look((0.0, 0.0, 0.0, 1.0), (255.0, 255.0, 255.0, 1.0), 16.0)


def mail_text(page: Any, html: str, drop: "Callable[[LexborNode], None]") -> str:
    """All of its body; `drop` is told of what is left out. `page` is the module `extract`."""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(page.clean(html))
    if tree.body is None:
        return ""
    rules = list(_rules("\n".join(node.text() for node in tree.css("style"))))
    sheet, variables = _sheet(tree, rules), _variables(tree, rules)
    looks: dict[int, _Look] = {}

    def style_of(node: "LexborNode") -> str:
        style = _plain_css(";".join([*sheet.get(node.mem_id, ()), node.attributes.get("style") or ""]))
        return ";".join(_resolved(style, variables)) if "var(" in style else style

    def look_of(node: "LexborNode", style: str) -> _Look:
        above = node.parent
        look = looks.get(above.mem_id, _USUAL) if above is not None else _USUAL
        return _look(look, node.attributes, dict(_declarations(style)))

    def hidden(node: "LexborNode") -> bool:
        if node.is_text_node:
            above, text = node.parent, node.text_content or ""
            return above is not None and looks.get(above.mem_id, _USUAL).unseen and bool(text.strip())
        style = style_of(node)
        look = looks[node.mem_id] = look_of(node, style)
        return page.is_hidden(node) or page.hides(style) or "popover" in node.attributes or _conceals(style, look.size)

    root = tree.body.parent
    if root is not None:
        hidden(root)
    return page.tidy(page.clean("".join(page.pieces(tree.body, hidden, drop, _target, _SAID)))).strip("\n")


def _target(node: "LexborNode") -> str:
    """Where a link leads; of a long one only the host, because those are a tracker's."""
    href = "".join((node.attributes.get("href") or "").split()) if node.tag == "a" else ""
    if not re.match(r"https?://[^/]", href, re.IGNORECASE) or node.text().strip() == href:
        return ""
    return f" ({href})" if len(href) <= _LINK else f" ({'/'.join(href.split('/')[:3])[:_LINK]}/…)"


# Style sheets


def _sheet(tree: "LexborHTMLParser", rules: list[tuple[str, str]]) -> dict[int, list[str]]:
    """What style sheets say of each element, by its id in the tree."""
    from selectolax.lexbor import SelectolaxError

    said: dict[int, list[str]] = {}
    for selectors, rule in rules:
        for selector in re.split(r",(?![^()]{0,200}\))", selectors):
            try:
                found = tree.css(selector)
            except SelectolaxError:
                continue
            for node in found:
                said.setdefault(node.mem_id, []).append(rule)
    return said


def _rules(css: str) -> Iterator[tuple[str, str]]:
    """The rules for a screen of usual width that could hide something, as selectors and declarations."""
    opened: list[str] = []
    pieces = re.split(r"([{}])", _without_comments(css.replace("<!--", "").replace("-->", "")))
    for piece, sign in zip(pieces[::2], pieces[1::2], strict=False):
        said, _, selectors = piece.rpartition(";") if sign == "{" else (piece, "", "")
        around = opened[-_MOST_NESTED:]
        if opened and _MATTERS.search(_plain_css(said)) and not any(_is_elsewhere(each) for each in around):
            within = _nested([each for each in around if not each.startswith("@")])
            if within:
                yield within, said
        if sign == "{":
            opened.append(selectors.strip())
        elif opened:
            opened.pop()


def _nested(rules: list[str]) -> str:
    """The selectors of a rule within others."""
    whole = ""
    for each in rules:
        above = f":is({whole})"
        whole = each if not whole else each.replace("&", above) if "&" in each else f"{above} {each}"
        if len(whole) > _LONGEST:
            return ""
    return whole


def _variables(tree: "LexborHTMLParser", rules: list[tuple[str, str]]) -> dict[str, list[str]]:
    """What the variables of styles stand for: every value, whatever element it holds for."""
    inline = (node.attributes.get("style") or "" for node in tree.css("[style*='--']"))
    said = _without_comments(";".join([*(rule for _, rule in rules), *inline]))
    found: dict[str, list[str]] = {}
    for name, value in _VARIABLE.findall(said):
        values = found.setdefault(name.lower(), [])
        if len(values) < _MOST_VALUES:
            values.append(value.strip().lower())
    return found


def _resolved(style: str, variables: dict[str, list[str]]) -> Iterator[str]:
    """The declarations of a style; one with a variable stands there once for each of its values."""
    for each in style.split(";"):
        used = _USED.search(each)
        if used is None:
            yield each
            continue
        for value in variables.get(used[1], [(used[2] or "").strip()]):
            yield f"{each[: used.start()]}{value}{each[used.end() :]}"


def _is_elsewhere(media: str) -> bool:
    """Whether what stands in it holds only for a phone, for paper or for dark mode."""
    plain = "".join(media.lower().split())
    known = all(_OTHER_SCREEN.search(each) for each in plain.split(","))
    return plain.startswith("@media") and known and "not" not in plain


def _without_comments(css: str) -> str:
    first, *more = css.split("/*")
    return "".join([first, *(piece.partition("*/")[2] for piece in more)])


def _plain_css(css: str) -> str:
    """A style in lower case, without comments and escapes."""

    def unescaped(found: "re.Match[str]") -> str:
        code = int(found[1], 16) if found[1] else 0
        return found[2] or (chr(code) if 0 < code < 0x110000 else "")

    return _ESCAPE.sub(unescaped, _without_comments(css)).lower()


def _declarations(style: str) -> Iterator[tuple[str, str]]:
    for each in style.split(";"):
        name, _, value = each.partition(":")
        yield name.strip(), value.partition("!")[0].strip()


# What keeps all of an element from being seen, besides what web pages use


def _conceals(style: str, size: float) -> bool:
    """Whether an element lies off the screen, has no room, or is covered."""
    said = list(_declarations(style))
    narrow = any(_BOX.match(name) and any(0 <= each <= 3 for each in _lengths(value, size)) for name, value in said)
    flat = any(name == "line-height" and any(0 <= each < 0.2 for each in _lengths(value, size)) for name, value in said)
    cut = any(name.startswith("overflow") and value in ("hidden", "clip") for name, value in said)
    return (cut and (narrow or flat)) or any(_covers(name, value, size) for name, value in said)


def _covers(name: str, value: str, size: float) -> bool:
    if name in _OFFSETS:
        sideways = name in ("left", "margin-left", "text-indent", "translate")
        return any(each <= _FAR_BACK or (sideways and each >= _FAR_ON) for each in _lengths(value, size))
    if name in ("letter-spacing", "word-spacing"):
        return any(each <= -size / 2 for each in _lengths(value, size))
    if _BOX.match(name):
        return any(0 <= each < 1 for each in _lengths(value, size))
    if name == "scale":
        return any(abs(each) < 0.2 for each in _lengths(value, size))
    if name in ("transform", "-webkit-transform", "-ms-transform", "filter", "-webkit-filter"):
        found = _FUNCTION.findall(value)
        faint = any(function == "opacity" and _opacity(given) < _FAINT for function, given in found)
        return faint or any(_distorts(function, _lengths(given, size)) for function, given in found)
    return bool(_VEILS.match(name)) and value not in _UNVEILED


def _distorts(function: str, given: list[float]) -> bool:
    match function:
        case "translate" | "translatex" | "translatey" | "translate3d":
            return any(each <= _FAR_BACK or each >= _FAR_ON for each in given)
        case "scale" | "scalex" | "scaley" | "scale3d":
            return any(abs(each) < 0.2 for each in given)
        case "matrix":
            return any(abs(each) < 0.2 for each in (*given[:1], *given[3:4])) or any(
                each <= _FAR_BACK or each >= _FAR_ON for each in given[4:]
            )
        case "skew" | "skewx" | "skewy":
            return any(abs(each) >= 80 for each in given)
        case "alpha":  # of old, in per cent
            return any(each < 100 * _FAINT for each in given)
        case "brightness" | "contrast":
            return any(not 0.2 <= each <= 5 and not 20 <= each <= 500 for each in given)
        case "blur":
            return any(each >= 3 for each in given)
        case _:
            return function in ("matrix3d", "rotatex", "rotatey", "rotate3d")


def _lengths(value: str, size: float) -> list[float]:
    """The numbers in a value, lengths in pixels, a per cent as one; the screen is taken to be 1000 wide and high."""
    units = {"em": size, "ex": size / 2, "ch": size / 2, "rem": 16.0, "vw": 10.0, "vh": 10.0}
    units |= {"pt": 1.33, "pc": 16.0, "mm": 3.78, "cm": 37.8, "in": 96.0}
    return [float(number) * units.get(unit, 1.0) for number, unit in _LENGTH.findall(value)]


# Looks


def _look(above: _Look, attributes: "dict[str, str | None]", said: dict[str, str]) -> _Look:
    """How text looks in an element, by what it says and by what stands around it."""
    colour: Colour = above.colour
    for given in (attributes.get("color"), attributes.get("text"), said.get("color")):
        if given and given not in ("inherit", "currentcolor", "unset", "revert"):
            colour = _colour(given.strip().lower())
    image = said.get("background-image", "")
    grounds = [attributes.get("bgcolor"), said.get("background"), said.get("background-color")]
    grounds += [] if "url(" in image else [image]  # of a picture nobody knows whether it is shown
    ground: Colour = above.ground
    if "url(" in image or attributes.get("background"):
        ground = None
    for given in grounds:
        ground = _ground(given.strip().lower(), ground) if given else ground
    size = above.size
    font = _FONT.search(said.get("font", ""))
    for given in (font[1] if font else "", said.get("font-size", "")):
        size = _pixels(given, above.size) if given else size
    fill = said.get("-webkit-text-fill-color", "")
    return _Look(
        colour,
        ground,
        size,
        above.opacity * _opacity(said.get("opacity", "")),
        _colour(fill) if fill and fill not in ("inherit", "currentcolor", "unset", "revert") else above.fill,
    )


def _opacity(value: str) -> float:
    found = re.fullmatch(r"(\d*\.?\d+)(%?)", value)
    return min(float(found[1]) / (100 if found[2] else 1), 1.0) if found else 1.0


def _ground(value: str, above: "Colour") -> "Colour":
    """The colour of a background: its first, or unknown if it is a picture alone."""
    plain = re.sub(r"url\([^)]*\)", " ", value)
    for each in _COLOURS.findall(plain):
        colour = _colour(each)
        if isinstance(colour, tuple):
            return colour if colour[3] >= 0.5 else above
    if plain != value:
        return None
    return above if value in ("", "none", "inherit", "initial", "unset") else value


def _colour(value: str) -> "Colour":
    if value == "transparent":
        return (0.0, 0.0, 0.0, 0.0)
    numbers = [(float(number), percent) for number, percent in _NUMBERS.findall(value)[:4]]
    if value.startswith(("rgb", "hsl")) and len(numbers) >= 3:
        opacity, percent = numbers[3] if len(numbers) > 3 else (1.0, "")
        parts = [number * 2.55 if each else number for number, each in numbers[:3]]
        if value.startswith("hsl"):
            hue, saturation, light = (number for number, _ in numbers[:3])
            parts = [255 * each for each in colorsys.hls_to_rgb(hue / 360, light / 100, saturation / 100)]
        return parts[0], parts[1], parts[2], opacity / 100 if percent else opacity
    found = _HEX.fullmatch(_NAMES.get(value, value))
    if found is None:  # a colour space that no mail needs may hold white as well
        return (0.0, 0.0, 0.0, 0.0) if "(" in value else value
    digits = found[1] if len(found[1]) >= 6 else "".join(2 * digit for digit in found[1])
    red, green, blue, alpha = (int(digits[at : at + 2] or "ff", 16) for at in (0, 2, 4, 6))
    return float(red), float(green), float(blue), alpha / 255


def _pixels(value: str, above: float) -> float:
    if "(" in value:  # a difference or a product may be nothing
        given = _lengths(value, above)
        return 0.0 if re.search(r"\s-|[*/]", value) else (min if "min(" in value else max)(given, default=above)
    found = _SIZE.match(value)
    if found is None:
        return above if value in ("inherit", "smaller", "larger") else _USUAL.size
    units = {"pt": 1.33, "em": above, "%": above / 100, "rem": 16.0, "vw": 10.0, "vh": 10.0}
    return float(found[1]) * units.get(found[2], 1.0)
