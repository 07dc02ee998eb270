"""Turns tree nodes into words: the result of each expansion, if it is known without running anything."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from coilclaw.lib.shell.call import ANYTHING, Feed, Findings, Scope
from coilclaw.lib.shell.environment import assigned
from coilclaw.lib.shell.heredoc import BODY, STRING, Body, quoted_body
from coilclaw.lib.shell.patterns import DESTRUCTIVE
from coilclaw.lib.shell.words import (
    BREAK,
    TAME,
    UNKNOWN,
    Piece,
    Word,
    ansi_c,
    compose,
    inside_double_quotes,
    inside_here_document,
    plain_piece,
    quoted_piece,
)

if TYPE_CHECKING:
    from tree_sitter import Node

Run = Callable[["Node", Scope, Feed], Feed]

PLAIN = frozenset({"word", "number", "extglob_pattern", "brace_expression", "variable_name", "regex", "test_operator"})
EXPANSIONS = frozenset({
    "simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion",
})  # fmt: skip
STRINGS = frozenset({"string", "raw_string", "ansi_c_string", "translated_string"})
WORDS = PLAIN | EXPANSIONS | STRINGS | {"concatenation", "$", "special_variable_name"}
_INSIDE = (
    WORDS
    | {
        "binary_expression", "unary_expression", "postfix_expression", "ternary_expression", "parenthesized_expression",
        "subscript", "array", "variable_assignment", "string_content", "comment", "file_descriptor",
    }
)  # fmt: skip
"""Node kinds allowed inside an expression; any other is opaque."""

_SIMPLE = re.compile(r"[\w./:@%+=,~-]+")
_NUMBERS = frozenset("?#$!-")
_TAME_NAMES = frozenset({
    "USER", "LOGNAME", "HOSTNAME", "UID", "EUID", "PPID", "RANDOM", "SECONDS", "LINENO", "EPOCHSECONDS", "COLUMNS",
    "LINES", "BASHPID", "HOSTTYPE", "OSTYPE", "BASH_VERSION", "SRANDOM",
})  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9_]+|[*@#?$!-]")
_LIVE = re.compile(r"(?<!\\)(?:\\\\)*(?:`|\$[({])")
_STRAY = re.compile(r"(?<!\\)(?:\\\\)*(?:[`'\"\s]|\$[({\w])")
_LIVE_INSIDE = re.compile(r"(?<!\\)(?:\\\\)*(?:`|\$[({]|[<>]\()")
_SUBSTITUTES = re.compile(r"`|\$[({]")
_BACKTICK_ESCAPES = re.compile(r"\\([`\\$])")
_BACKTICK_ESCAPES_IN_QUOTES = re.compile(r"\\([`\\$\"])")
_MARKED = re.compile(f"{BODY}([0-9]+){BODY}")
_COMMAND_LIKE = re.compile(r"[\s!(]*[A-Za-z_./][\w./-]*\s+(--?[A-Za-z]|[A-Za-z~$]|/\s*-|/\w)")
_BLANKS = " \t\n"


class Expander:
    """Reads words from one parsed text; substitutions inside them are passed to `run`."""

    def __init__(self, source: bytes, bodies: tuple[Body, ...], found: Findings, run: Run) -> None:
        self.source = source
        self.bodies = bodies
        self.found = found
        self.run = run
        self.feeding = ANYTHING
        """The input of the command whose words are being read."""

    def text(self, node: "Node") -> str:
        """A node's own text."""
        return self.source[node.start_byte : node.end_byte].decode(errors="replace")

    def words(self, node: "Node", scope: Scope) -> list[Word]:
        """The words of a node: usually one, several with braces or split fields, none if empty."""
        if node.type == "word":
            raw = self.text(node)
            if _SIMPLE.fullmatch(raw):
                return [Word(raw)]
        pieces: list[Piece] = []
        self.pieces(node, scope, pieces, quoted=False)
        made = compose(pieces)
        if not made and any(piece.quoted for piece in pieces):
            return [Word("")]
        return made

    def word(self, node: "Node", scope: Scope) -> Word:
        """The single word of a node; an unknown one if there would be several."""
        made = self.words(node, scope)
        if len(made) == 1:
            return made[0]
        return Word(UNKNOWN, loose=True, fetched=any(each.fetched for each in made)) if made else Word("")

    def pieces(self, node: "Node", scope: Scope, out: list[Piece], *, quoted: bool) -> None:
        """Append what a node contributes to a word."""
        kind = node.type
        if kind in PLAIN:
            self.plain(node, scope, out)
        elif kind == "string":
            self.string(node, scope, out)
        elif kind == "raw_string":
            self.quoted(self.text(node)[1:-1], out)
        elif kind == "ansi_c_string":
            if "\\'" in self.text(node):
                self.found.mark_opaque("opaque.construct", self.text(node))  # elsewhere this quote ends the string
            self.quoted(ansi_c(self.text(node)[2:-1]), out)
            out.append(Piece("", quoted=True, computed=True))  # not every shell knows $'…'
        elif kind in {"concatenation", "translated_string"}:
            self.joined(node, scope, out)
        elif kind in EXPANSIONS:
            out.append(self.expansion(node, scope, quoted=quoted))
        elif kind == "$":
            out.append(Piece("$"))
        else:
            self.found.mark_opaque("opaque.construct", self.text(node))
            self.inside(node, scope)
            out.append(Piece(UNKNOWN, loose=True))

    def plain(self, node: "Node", scope: Scope, out: list[Piece]) -> None:
        """Unquoted text; remaining quotes, blanks or expansions mean that the grammar missed something."""
        raw = self.text(node)
        if node.named_child_count:  # a number in a base, a brace with expansions
            self.inside(node, scope)
        if _STRAY.search(raw):
            self.found.mark_opaque("opaque.construct", raw)
        out.append(plain_piece(raw))

    def quoted(self, text: str, out: list[Piece]) -> None:
        """Text from inside quotes."""
        if indexes(text):
            self.found.smuggles = True
        out.append(quoted_piece(text))

    def joined(self, node: "Node", scope: Scope, out: list[Piece]) -> None:
        """Pieces that touch."""
        end, before = node.start_byte, ""
        for child in node.children:
            if child.start_byte != end or (before == "$" and child.type == "string"):
                self.found.mark_opaque("opaque.construct", self.text(node))  # shells differ on $"…"
            end, before = child.end_byte, child.type
            self.pieces(child, scope, out, quoted=False)

    def string(self, node: "Node", scope: Scope, out: list[Piece]) -> None:
        """Double quotes: the text between expansions is taken verbatim, because blanks there belong to no node."""
        cut = node.start_byte + 1
        for child in node.children:
            kind = child.type
            if kind in EXPANSIONS:
                raw = self.source[child.start_byte : child.end_byte].decode(errors="replace")
                start = child.start_byte + len(raw) - len(raw.lstrip(_BLANKS))
                self.quoted_raw(cut, start, out)
                out.append(self.expansion(child, scope, quoted=True))
                cut = child.end_byte
            elif kind not in {"string_content", '"', "$"}:
                self.found.mark_opaque("opaque.construct", self.text(child))
        self.quoted_raw(cut, node.end_byte - 1, out)
        if not any(piece.quoted for piece in out):
            out.append(quoted_piece(""))

    def quoted_raw(self, start: int, end: int, out: list[Piece]) -> None:
        """Source text between double quotes that contains no more expansions."""
        if start < end:
            raw = self.source[start:end].decode(errors="replace")
            if _LIVE.search(raw):
                self.found.mark_opaque("opaque.construct", raw)
            self.quoted(inside_double_quotes(raw), out)

    def expansion(self, node: "Node", scope: Scope, *, quoted: bool) -> Piece:
        """The result of an expansion."""
        kind = node.type
        if kind == "simple_expansion":
            name = self.text(node).lstrip(_BLANKS)[1:]
            if not _NAME.fullmatch(name):  # the grammar lets blanks stand between the dollar and the name
                self.found.mark_opaque("opaque.construct", name)
            return self.value(name, scope, quoted=quoted)
        if kind == "expansion":
            return self.braced(node, scope, quoted=quoted)
        if kind == "arithmetic_expansion":
            self.inside(node, scope)
            if looks_like_command(self.text(node).strip(_BLANKS)[3:-2]):
                self.found.mark_opaque("opaque.construct", self.text(node))
                self.found.follow(self.text(node).strip(_BLANKS)[3:-2], scope.fork(), ANYTHING)
            old = self.text(node).lstrip(_BLANKS).startswith("$[")  # not every shell knows $[…]
            return Piece(UNKNOWN if old else TAME, quoted=quoted, computed=True)
        if kind == "process_substitution":
            return self.process(node, scope)
        return self.substitution(node, scope, quoted=quoted)

    def value(self, name: str, scope: Scope, *, quoted: bool) -> Piece:
        """A variable's value, if this text or the shell determines it."""
        if name in _NUMBERS:
            return Piece(TAME, quoted=quoted, computed=True)
        if name in scope.variables:
            known = scope.variables[name]
            if known is None:
                return Piece(UNKNOWN, quoted=quoted, loose=not quoted, computed=True)
            return self.known(known, quoted=quoted)
        if name == "IFS" and not quoted:
            return Piece(BREAK, computed=True)
        text = {"HOME": "~", "PWD": "."}.get(name) or (TAME if name in _TAME_NAMES else UNKNOWN)
        many = name in "@*"
        return Piece(text, quoted=quoted, loose=text == UNKNOWN and (many or not quoted), computed=True)

    def known(self, value: Word, *, quoted: bool) -> Piece:
        """A variable's value inserted into a word: unquoted, it is split again."""
        text = value.text
        if not quoted:
            text = BREAK.join(text.split()) if any(c in text for c in _BLANKS) else text
        loose = not quoted and not value.sure
        glob = value.glob or (not quoted and any(c in text for c in "*?["))
        return Piece(text, quoted=quoted, loose=loose, computed=True, fetched=value.fetched, glob=glob)

    def braced(self, node: "Node", scope: Scope, *, quoted: bool) -> Piece:
        """`${…}` in all its forms; only the plain one and the length have a known result."""
        parts = [child for child in node.children if child.type not in {"${", "}"}]
        kinds = [child.type for child in parts]
        if kinds in (["variable_name"], ["special_variable_name"]) and self.text(parts[0]).isascii():
            return self.value(self.text(parts[0]), scope, quoted=quoted)
        if kinds[:1] == ["#"] and kinds[1:] in (["variable_name"], ["subscript"]):
            self.inside(node, scope)
            return Piece(TAME, quoted=quoted, computed=True)
        raw = self.text(node).lstrip(_BLANKS)
        if raw[2:3] in {" ", "\t", "\n", "|"} or re.search(r"[^$\\]\{", raw[2:]):
            self.found.mark_opaque("opaque.construct", raw)
        if "P" in kinds or (kinds[:1] == ["!"] and not re.fullmatch(r"\$\{!\w+(\[[@*]\]|[@*])\}", raw)):
            self.found.mark_opaque("opaque.expansion", raw)
        if ":" in kinds:
            self.found.evaluates = True
        if kinds[1:2] in ([":="], ["="]):
            name = self.text(parts[0])
            assigned(name, None, self.found)
            scope.variables[name] = None
        self.inside(node, scope)
        return Piece(UNKNOWN, quoted=quoted, loose=not quoted or "[@]" in raw, computed=True)

    def substitution(self, node: "Node", scope: Scope, *, quoted: bool) -> Piece:
        """`$(…)` or backticks: the commands inside are parsed, and their output is used if it is known."""
        before = self.found.fetches
        feed = self.backtick(node, scope, quoted=quoted)
        feed = feed if feed is not None else self.run(node, scope.fork(), self.feeding)
        fetched = feed.fetched or self.found.fetches > before
        if feed.kind == "tame":
            return Piece(TAME, quoted=quoted, computed=True)
        if feed.kind == "cwd":
            return Piece(".", quoted=quoted, computed=True)
        if feed.kind == "text" and not fetched:
            return self.known(Word(feed.text.rstrip("\n")), quoted=quoted)
        return Piece(UNKNOWN, quoted=quoted, loose=not quoted, computed=True, fetched=fetched)

    def backtick(self, node: "Node", scope: Scope, *, quoted: bool) -> Feed | None:
        """Backticks with escapes inside are unescaped and parsed again, as in the shell."""
        raw = self.text(node).strip(_BLANKS)
        if not raw.startswith("`") or "\\" not in raw:
            return None
        escapes = _BACKTICK_ESCAPES_IN_QUOTES if quoted else _BACKTICK_ESCAPES
        return self.found.follow(escapes.sub(r"\1", raw[1:-1]), scope.fork(), ANYTHING)

    def process(self, node: "Node", scope: Scope) -> Piece:
        """`<(…)` becomes a file whose content is what the commands print."""
        before = self.found.fetches
        into = self.text(node).lstrip(_BLANKS).startswith(">")
        feed = Feed("unknown", fetched=self.feeding.fetched) if into else ANYTHING
        out = self.run(node, scope.fork(), feed)
        path = f"/dev/fd/{63 - len(self.found.files)}"
        fetched = out.fetched or self.found.fetches > before
        self.found.files[path] = Feed(out.kind, out.text, fetched)
        return Piece(path, quoted=True, fetched=fetched)

    def inside(self, node: "Node", scope: Scope, *, index: bool = False) -> None:
        """Search an expression for commands; an unknown node kind is opaque."""
        todo = [(child, index) for child in node.children]
        arithmetic = node.type in {"arithmetic_expansion", "compound_statement", "c_style_for_statement"}
        self.nothing_live(node)
        while todo:
            child, indexed = todo.pop()
            kind = child.type
            if kind in {"command_substitution", "process_substitution"}:
                if indexed:
                    self.found.mark_opaque("opaque.index", self.text(child))
                self.expansion(child, scope, quoted=True)
            elif kind in {"string", "raw_string", "ansi_c_string", "expansion", "simple_expansion"}:
                self.found.evaluates |= arithmetic
                self.pieces(child, scope, [], quoted=True)
            elif child.is_named and kind not in _INSIDE:
                self.found.mark_opaque("opaque.construct", self.text(child))
            else:
                self.found.evaluates |= arithmetic and kind in {"variable_name", "word"}
                bracket = kind == "subscript" or (kind == "concatenation" and "[" in self.text(child))
                self.nothing_live(child)
                todo += [(each, indexed or bracket) for each in child.children]

    def nothing_live(self, node: "Node") -> None:
        """Check that no substitution hides between or inside the smallest nodes."""
        cut = node.start_byte
        children = node.children
        if not children:
            text = self.text(node)
            if node.is_named and _LIVE_INSIDE.search(text):
                self.found.mark_opaque("opaque.construct", text)
                if text[0] == text[-1] == "`":
                    self.found.follow(text[1:-1], Scope(), ANYTHING)
            return
        for child in children:
            if cut < child.start_byte and self.source[cut : child.start_byte].strip(b" \t\n\\"):
                self.found.mark_opaque("opaque.construct", self.text(node))
            cut = child.end_byte

    def body(self, name: str, scope: Scope) -> Word | None:
        """The text of a lifted here-document or here-string, or None for an ordinary name."""
        match = _MARKED.fullmatch(name)
        if match is None:
            return None
        lifted = self.bodies[int(match[1])] if int(match[1]) < len(self.bodies) else Body("", raw=False)
        if lifted.raw:
            return Word(lifted.text)
        if "$" not in lifted.text and "`" not in lifted.text:
            return Word(inside_here_document(lifted.text))
        word, sure = quoted_body(lifted.text)
        if not sure:
            self.found.mark_opaque("opaque.heredoc")
        return self.expanded(word, scope)

    def expanded(self, word: str, scope: Scope) -> Word:
        """A double-quoted word parsed on its own: what `:` would get as its argument."""
        out = self.found.follow(f"printf %s {word}", scope, ANYTHING)
        return Word(out.text) if out.kind == "text" else Word(UNKNOWN, fetched=out.fetched)


def indexes(text: str) -> bool:
    """True for text that, evaluated as an array index, would run something."""
    at = text.find("[")
    return at >= 0 and _SUBSTITUTES.search(text, at) is not None


def looks_like_command(text: str) -> bool:
    """True for arithmetic that looks like a command and its arguments, as if a subshell was meant."""
    first = re.match(r"[\s!(]*([\w.-]+)(\s|$)", text)
    return _COMMAND_LIKE.match(text) is not None or (first is not None and first[1] in DESTRUCTIVE)


def here_string(word: Word) -> Word | None:
    """The text of a here-string, when the redirection's name is one."""
    if not word.text.startswith(STRING):
        return None
    return Word(word.text[1:] + "\n", computed=word.computed, fetched=word.fetched)
