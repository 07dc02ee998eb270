"""Colours for code in an answer, a line at a time. Every character stays; what a line opens, the next one closes."""

import re
from functools import cache

COMMENT, STRING, NUMBER, KEYWORD, ADDED, REMOVED, PLACE = (f"\x1b[{n}m" for n in (2, 32, 35, 36, 32, 31, 36))
PLAIN = ""
_LONGEST = 2000
"""Characters of a line above which it is left as it is."""
_WORDS = {
    "python": "and as assert async await break case class continue def del elif else except finally for from global if"
    " import in is lambda match None nonlocal not or pass raise return True False try while with yield",
    "shell": "if then elif else fi for in do done while until case esac function return local export set exit cd echo",
    "script": "abstract as async await break case catch class const continue default delete do else enum export extends"
    " false finally for from function if implements import in instanceof interface let new null of private protected"
    " public readonly return static super switch this throw true try type typeof undefined var void while yield",
    "braces": "as async auto await bool break case catch char class const continue default defer do double else enum"
    " extern false fn final float for func go goto if impl import int interface let long loop map match mod mut new nil"
    " null nullptr package private protected pub public range return self short signed static string struct super"
    " switch this throw trait true try type typedef union unsigned use var void volatile where while",
    "sql": "add all alter and as asc between by case create delete desc distinct drop else end exists foreign from"
    " group having if in index inner insert into is join key left like limit not null on or order outer primary"
    " references right select set table then union unique update values view when where with",
    "data": "true false null none yes no on off",
    "style": "important media import supports",
}
_MARKS = {  # how a comment to the end of the line begins, and what a longer piece is between
    "python": (r"#", (('"""', '"""'), ("'''", "'''"))),
    "shell": (r"(?<!\S)#", ()),
    "script": (r"//", (("/*", "*/"), ("`", "`"))),
    "braces": (r"//", (("/*", "*/"),)),
    "sql": (r"--", (("/*", "*/"),)),
    "data": (r"(?<!\S)[#;]", ()),
    "style": (r"(?!)", (("/*", "*/"),)),
    "markup": (r"(?!)", (("<!--", "-->"),)),
}
_FAMILIES = {
    "python": "python py pyi python3",
    "shell": "sh bash shell zsh console dockerfile containerfile make makefile",
    "script": "js javascript ts typescript jsx tsx mjs cjs php",
    "braces": "c h cpp c++ cc hpp cs csharp java kotlin kt go rust rs swift scala zig proto",
    "sql": "sql sqlite postgres postgresql mysql",
    "data": "json jsonc yaml yml toml ini cfg conf env properties",
    "style": "css scss less",
    "markup": "html xml svg svelte vue",
    "diff": "diff patch",
}
_FAMILY = {name: family for family, names in _FAMILIES.items() for name in names.split()}
_DIFFERENCE = (("@@", PLACE), ("+++", PLAIN), ("---", PLAIN), ("+", ADDED), ("-", REMOVED))


class Highlighter:
    """Colours the lines of one block of code, in a language; of an unknown one it leaves every line as it is."""

    def __init__(self, language: str) -> None:
        self._family = _FAMILY.get(language.lower(), "")
        self._end = ""
        """What ends the longer piece that is open."""
        self._style = PLAIN

    @property
    def known(self) -> bool:
        """Whether it knows the language at all."""
        return bool(self._family)

    def line(self, line: str) -> list[tuple[str, str]]:
        """The pieces of the next line, each with its colour."""
        if self._family == "diff":
            return [(line, next((style for start, style in _DIFFERENCE if line.startswith(start)), PLAIN))]
        if not self._family or len(line) > _LONGEST:
            return [(line, PLAIN)]
        pieces: list[tuple[str, str]] = []
        at = 0
        while at < len(line):
            if self._end:
                end = line.find(self._end, at)
                stop = len(line) if end < 0 else end + len(self._end)
                pieces.append((line[at:stop], self._style))
                if end >= 0:
                    self._end = ""
            else:
                found = _pattern(self._family).match(line, at)
                stop = at + 1 if found is None else found.end()
                pieces.append((line[at:stop], PLAIN if found is None else self._of(found)))
            at = stop
        return pieces

    def _of(self, found: re.Match[str]) -> str:
        """The colour of what was found; a longer piece stays open."""
        text, kind = found[0], found.lastgroup
        if kind == "open":
            self._end = dict(_MARKS[self._family][1])[text]
            self._style = COMMENT if text in ("/*", "<!--") else STRING
            return self._style
        if kind == "word":
            word = text.lower() if self._family in ("sql", "data") else text
            return KEYWORD if word in _KEYWORDS.get(self._family, ()) else PLAIN
        return {"comment": COMMENT, "string": STRING, "number": NUMBER, "tag": KEYWORD}.get(kind or "", PLAIN)


@cache
def _pattern(family: str) -> re.Pattern[str]:
    comment, longer = _MARKS[family]
    parts = [rf"(?P<open>{'|'.join(re.escape(start) for start, _ in longer)})"] if longer else []
    parts.append(rf"(?P<comment>{comment}.*)")
    if family == "markup":
        parts.append(r"(?P<tag></?[A-Za-z][\w:.-]*|/?>)")
    letter = r"'(?:[^'\\\s]|\\.){1,8}'" if family == "braces" else r"(?<!\w)'(?:[^'\\]|\\.)*'"  # 'a is no text there
    parts += [
        rf"""(?P<string>"(?:[^"\\]|\\.)*"?|{letter})""",
        r"(?P<number>(?<![\w.])(?:0[xXbo][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w]))",
        r"(?P<word>[^\W\d]\w*)",
        r"(?P<rest>\s+|\w+)",
    ]
    return re.compile("|".join(parts))


_KEYWORDS = {family: frozenset(words.split()) for family, words in _WORDS.items()}
