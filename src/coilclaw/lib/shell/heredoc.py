"""Extracts here-documents from shell text, so that no body is taken for commands and no command for a body.

The grammar parses `<<WORD` unreliably next to pipes and lists. Here each becomes an ordinary `<` redirection whose
name is a marker, and `<<< word` becomes `<` with a marker before the word.
"""

import re

import msgspec

BODY = "\ue000"
"""Around the number of a lifted body."""
STRING = "\ue001"
"""Before the word of a here-string."""

_DELIMITER = re.compile(r"[ \t]*((?:'[^']*'|\"[^\"]*\"|\\.|[^\s'\"\\<>|&;()`$])+)")
_WORD_START = frozenset(" \t\n;|&()<>`")
_COMMENT = re.compile(r"#[^\n]*")
_CASE = re.compile(r"\bcase\b")
_STOPS = re.compile(r"[\\'\"`$()#<>\n}]")


class Body(msgspec.Struct, frozen=True):
    """The text of one here-document; in a raw one nothing is expanded."""

    text: str
    raw: bool


class Lifted(msgspec.Struct, frozen=True):
    """Shell text without here-documents, and their bodies."""

    text: str
    bodies: tuple[Body, ...] = ()
    sure: bool = True
    """False if it is ambiguous."""


class _Frame(msgspec.Struct):
    kind: str
    """`c` commands, `q` double quotes, `b` ${…}, `a` arithmetic, `t` backticks."""
    start: int
    parens: int = 0
    bare: bool = False
    """Arithmetic that a plain shell would parse as a subshell."""


def _unquoted(word: str) -> str:
    """A delimiter without its quotes."""
    pieces = re.findall(r"'([^']*)'|\"([^\"]*)\"|\\(.)|([^'\"\\])", word, re.DOTALL)
    return "".join(single or double or escaped or plain for single, double, escaped, plain in pieces)


class _Lifter:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.copied = 0
        self.out: list[str] = []
        self.stack = [_Frame("c", 0)]
        self.pending: list[tuple[str, bool, bool]] = []
        self.bodies: list[Body] = []
        self.quotes: list[int] = []
        self.sure = True

    def run(self) -> Lifted:
        text = self.text
        while match := _STOPS.search(text, self.at):
            self.at = match.start()
            self.step(text[self.at])
        self.out.append(text[self.copied :])
        sure = self.sure and not self.pending and len(self.stack) == 1
        return Lifted("".join(self.out), tuple(self.bodies), sure)

    def step(self, char: str) -> None:
        frame = self.stack[-1]
        if char == "\\":
            if len(self.stack) == 1 and frame.kind == "q" and self.text.startswith('"', self.at + 1):
                self.quotes += (self.at, self.at + 1)  # in a body, neither is special
            self.at += 2
        elif char == "$":
            self.dollar(frame)
        elif char == "`":
            self.backtick(frame)
        elif char == '"':
            self.double(frame)
        elif frame.kind == "q":
            self.at += 1
        elif char == "'":
            self.single()
        elif frame.kind == "b":
            self.pop() if char == "}" else self.skip()
        elif char in "()":
            self.paren(char, frame)
        elif frame.kind == "a":
            self.shift(char, frame)
        else:
            self.operator(char)

    def skip(self, count: int = 1) -> None:
        self.at += count

    def pop(self, count: int = 1) -> None:
        self.at += count
        if len(self.stack) > 1:
            self.stack.pop()

    def push(self, kind: str, width: int, *, parens: int = 0, bare: bool = False) -> None:
        self.at += width
        self.stack.append(_Frame(kind, self.at, parens, bare))

    def dollar(self, frame: _Frame) -> None:
        after = self.text[self.at + 1 : self.at + 3]
        if after == "((":
            self.push("a", 3, parens=2)
        elif after[:1] == "(":
            self.push("c", 2)
        elif after[:1] == "{":
            self.push("b", 2)
        elif after[:1] == "'" and frame.kind != "q":
            end = re.compile(r"(?:[^'\\]|\\.)*'", re.DOTALL).match(self.text, self.at + 2)
            self.at = end.end() if end else len(self.text)
        elif after[:1] in {"#", "$"}:
            self.at += 2
        else:
            self.at += 1

    def backtick(self, frame: _Frame) -> None:
        if frame.kind == "t":
            self.pop()
        else:
            self.push("t", 1)

    def double(self, frame: _Frame) -> None:
        if frame.kind == "q":
            if len(self.stack) == 1:
                self.quotes.append(self.at)
            self.pop()
        else:
            self.push("q", 1)

    def single(self) -> None:
        if any(frame.kind == "q" for frame in self.stack) and self.stack[-1].kind in "ba":
            self.sure = False  # shells differ on single quotes inside "${…}"
        end = self.text.find("'", self.at + 1)
        self.at = len(self.text) if end < 0 else end + 1

    def paren(self, char: str, frame: _Frame) -> None:
        if frame.kind == "a":
            frame.parens += 1 if char == "(" else -1
            self.pop() if frame.parens <= 0 else self.skip()
        elif char == "(":
            double = self.text.startswith("((", self.at)
            self.push("a", 2, parens=2, bare=True) if double else self.push("c", 1)
        else:
            if _CASE.search(self.text, frame.start, self.at):
                self.sure = False  # this parenthesis may only close a pattern
            self.pop()

    def shift(self, char: str, frame: _Frame) -> None:
        if char == "<" and frame.bare and self.text.startswith("<<", self.at):
            self.sure = False
        self.at += 1

    def operator(self, char: str) -> None:
        text = self.text
        if char == "#":
            comment = self.at == 0 or text[self.at - 1] in _WORD_START
            self.at = _COMMENT.match(text, self.at).end() if comment else self.at + 1  # pyright: ignore[reportOptionalMemberAccess]
        elif char == "\n":
            self.at += 1
            if self.pending:
                self.read_bodies()
        elif char in "<>" and text.startswith("(", self.at + 1):
            self.push("c", 2)
        elif text.startswith("<<<", self.at):
            self.replace(3, "<" + STRING)
            blank = re.compile(r"[ \t]*").match(text, self.at)
            self.copied = self.at = blank.end() if blank else self.at
        elif text.startswith("<<", self.at):
            self.here()
        else:
            self.at += 1

    def replace(self, width: int, new: str) -> None:
        self.out.append(self.text[self.copied : self.at])
        self.out.append(new)
        self.at += width
        self.copied = self.at

    def here(self) -> None:
        dashed = self.text.startswith("<<-", self.at)
        match = _DELIMITER.match(self.text, self.at + (3 if dashed else 2))
        if match is None or any(frame.kind == "t" for frame in self.stack):
            self.sure = False
            self.at += 2
            return
        word = match[1]
        raw = any(c in word for c in "'\"\\")
        if self.text[match.end() : match.end() + 1] in ("$", "`", "'", '"', "\\"):
            self.sure = False
        number = len(self.bodies) + len(self.pending)
        self.replace(match.end() - self.at, f"<'{BODY}{number}{BODY}'")
        self.pending.append((_unquoted(word), raw, dashed))

    def read_bodies(self) -> None:
        self.out.append(self.text[self.copied : self.at])
        for delimiter, raw, dashed in self.pending:
            self.bodies.append(Body(self.one_body(delimiter, raw, dashed), raw))
        self.pending.clear()
        self.copied = self.at

    def one_body(self, delimiter: str, raw: bool, dashed: bool) -> str:
        lines: list[str] = []
        while self.at < len(self.text):
            end = self.text.find("\n", self.at)
            line = self.text[self.at :] if end < 0 else self.text[self.at : end]
            self.at = len(self.text) if end < 0 else end + 1
            if dashed:
                line = line.lstrip("\t")
            if line == delimiter:
                if lines and lines[-1].endswith("\\") and not raw:
                    self.sure = False
                return "".join(f"{each}\n" for each in lines)
            lines.append(line)
        self.sure = False
        return "".join(f"{each}\n" for each in lines)


def lift(text: str) -> Lifted:
    """Extract every here-document and here-string from shell text."""
    return _Lifter(text).run() if "<<" in text else Lifted(text)


def quoted_body(text: str) -> tuple[str, bool]:
    """An expanding here-document's body as one double-quoted word, its quotes escaped; and whether that is certain."""
    lifter = _Lifter(text)
    lifter.stack = [_Frame("q", 0)]
    sure = lifter.run().sure and not lifter.out[:-1]
    parts: list[str] = []
    cut = 0
    for at in lifter.quotes:
        parts += (text[cut:at], "\\" + text[at])
        cut = at + 1
    return '"' + "".join(parts) + text[cut:] + '"', sure
