"""One simple command of the tree: its assignments, redirections and words, and the gaps between them."""

import re
from typing import TYPE_CHECKING, TypeAlias

from coilclaw.lib.shell.call import ANYTHING, Feed, Findings, Scope
from coilclaw.lib.shell.environment import assigned
from coilclaw.lib.shell.expand import WORDS, Expander, here_string
from coilclaw.lib.shell.judge import judge
from coilclaw.lib.shell.patterns import overwrites
from coilclaw.lib.shell.words import UNKNOWN, Word

if TYPE_CHECKING:
    from tree_sitter import Node

Target: TypeAlias = tuple[Word, bool]
"""Where output goes, and whether it is appended."""

REDIRECTS = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
_ONE_LINE = frozenset({
    "command", "file_redirect", "redirected_statement", "pipeline", "list", "negated_command",
    "declaration_command", "unset_command", "variable_assignment", "variable_assignments",
})  # fmt: skip
_OPERATORS = frozenset({"|", "|&", "&&", "||"})
_BEFORE_COMMENT = frozenset({"", ";", ";;", "(", ")", "&", "|", "&&", "||", "\n", "$(", "<(", ">(", "`"})
_GLUED = WORDS | {"command_name", "file_redirect", "variable_assignment"}
_READERS = frozenset({"read", "mapfile", "readarray"})


class Commands:
    """Reads simple commands of one parsed text into the findings."""

    expand: Expander

    def __init__(self, source: bytes, found: Findings) -> None:
        self.source = source
        self.found = found

    def visit(self, node: "Node", scope: Scope, feed: Feed, outer: tuple["Node", ...] = ()) -> Feed:
        """One statement of any kind."""
        raise NotImplementedError

    def strange(self, node: "Node", scope: Scope, feed: Feed) -> None:
        """A broken or unknown node: its readable parts are still parsed."""
        self.found.mark_opaque("unparsed" if node.is_error or node.is_missing else "opaque.construct")
        loose: list[Word] = []
        for child in node.children:
            if child.type in WORDS or child.type == "command_name":
                target = child.children[0] if child.type == "command_name" and child.children else child
                text = self.expand.text(target)
                brace = self.source[child.start_byte - 1 : child.start_byte] == b"{" and "," in text
                loose += _brace_words(text) if brace else self.expand.words(target, scope)
            elif child.is_named and child.type != "comment":
                self.visit(child, scope, feed)
        if loose:
            judge(loose, scope, feed, self.found)

    def command(self, node: "Node", scope: Scope, feed: Feed, outer: tuple["Node", ...]) -> Feed:
        """A simple command: its assignments, redirections and words, judged together."""
        self.expand.feeding = feed
        children = node.children
        self.gaps(node, glue=True)
        redirects = tuple(child for child in children if child.type in REDIRECTS)
        assignments: list[tuple[str, Word | None]] = []
        argv: list[Word] = []
        for child in children:
            kind = child.type
            if kind == "variable_assignment":
                assignments.append(self.assignment(child, scope))
            elif kind == "command_name":
                argv += self.expand.words(child.children[0] if child.children else child, scope)
            elif kind in WORDS:
                argv += self.expand.words(child, scope)
            elif kind in {"==", "=~"}:
                argv.append(Word(kind))
            elif kind not in REDIRECTS and kind != "comment":
                self.strange(child, scope, feed)
        feed, targets, extra = self.redirects(redirects + outer, scope, feed)
        argv += extra
        for name, value in assignments:
            if name != "IFS" or not argv or argv[0].text not in _READERS:
                assigned(name, value, self.found)
        out = judge(argv, scope, feed, self.found)
        return self.landed(out, targets, scope)

    def gaps(self, node: "Node", *, glue: bool = False) -> None:
        """Only blanks may be between children, and no newline where it would end the command."""
        end, before = 0 if node.type == "program" else node.start_byte, ""
        one_line = node.type in _ONE_LINE
        for child in node.children:
            start, kind = child.start_byte, child.type
            if start > end:
                blanks = b" \t" if one_line and before not in _OPERATORS else b" \t\n"
                gap = self.source[end:start].replace(b"\\\n", b"")  # a line continuation separates nothing
                if not gap or gap.strip(blanks):
                    self.found.mark_opaque("opaque.construct", self.source[end:start].decode(errors="replace"))
            elif kind == "comment":
                if before not in _BEFORE_COMMENT:
                    self.found.mark_opaque("opaque.construct", self.expand.text(child))
            elif glue and before in _GLUED and kind in _GLUED:
                self.found.mark_opaque("opaque.construct", self.expand.text(child))
            end, before = child.end_byte, before if kind == "comment" and before in _OPERATORS else kind
        if node.type == "program" and self.source[end:].strip(b" \t\n") not in {b"", b"\\"}:
            self.found.mark_opaque("opaque.construct", self.source[end:].decode(errors="replace"))

    def redirects(self, nodes: tuple["Node", ...], scope: Scope, feed: Feed) -> tuple[Feed, list[Target], list[Word]]:
        """Redirections: the command's input, where its output goes, and words the grammar attached to them."""
        targets: list[Target] = []
        extra: list[Word] = []
        for node in nodes:
            if node.type != "file_redirect":
                self.found.mark_opaque("opaque.heredoc")
                continue
            self.gaps(node, glue=True)
            feed = self.redirect(node, scope, feed, targets, extra)
        if extra and any(child.type in {"&>", "&>>"} for node in nodes for child in node.children):
            self.found.mark_opaque(
                "opaque.construct", extra[0].shown
            )  # a plain shell treats `&` as the end of the command
            judge(extra, scope, ANYTHING, self.found)
        return feed, targets, extra

    def redirect(self, node: "Node", scope: Scope, feed: Feed, targets: list[Target], extra: list[Word]) -> Feed:
        """One redirection; returns the command's input from here on."""
        descriptor, operator = "", ""
        if re.search(rb"\{\w+\}$", self.source[max(0, node.start_byte - 40) : node.start_byte]):
            self.found.mark_opaque("opaque.construct", "{…}" + self.expand.text(node))  # {name}> opens a new descriptor
        made: list[Word] = []
        for child in node.children:
            if child.type == "file_descriptor":
                descriptor = self.expand.text(child)
            elif child.type in WORDS:
                made += [self.expand.word(child, scope)] if not made else self.expand.words(child, scope)
            elif child.is_named:
                self.strange(child, scope, feed)
            else:
                operator = child.type
        if not made:
            return feed
        if operator in {"<&-", ">&-"}:
            extra += made
            return feed
        target, *rest = made
        extra += rest
        if operator == "<":
            new = self.source_of(target, scope)
            return new if descriptor in {"", "0"} else feed
        if operator in {"<&", ">&"} and re.fullmatch(r"\d*-?", target.text):
            return ANYTHING if operator == "<&" else feed
        overwrites(target, scope, self.found)
        if descriptor in {"", "1"}:
            targets.append((target, operator.endswith(">>")))
        return feed

    def source_of(self, target: Word, scope: Scope) -> Feed:
        """The input of `<`: a lifted body, a here-string, or a file."""
        text = self.expand.body(target.text, scope) or here_string(target)
        if text is not None:
            return Feed("text", text.text) if text.sure else Feed("unknown", fetched=text.fetched)
        if target.text.startswith(("/dev/tcp/", "/dev/udp/")):
            self.found.mark_opaque("opaque.network", target.shown)
        known = self.found.files.get(target.text)
        if known is not None:
            return known
        self.found.read(scope, target)
        self.found.unsure |= not target.sure
        return Feed("file", target.path) if target.sure else ANYTHING

    def landed(self, out: Feed, targets: list[Target], scope: Scope) -> Feed:
        """Remember what was written to which file, to follow running it later."""
        if not targets:
            return out
        for target, append in targets:
            self.found.keep(scope, target.path, out, append=append)
        return Feed("text", fetched=False)

    def assignment(self, node: "Node", scope: Scope) -> tuple[str, Word | None]:
        """A variable's name and value; the value's substitutions are parsed too."""
        target, *rest = node.children
        name = self.expand.text(target)
        if not name.isascii():
            self.found.mark_opaque("opaque.construct", name)  # not a valid variable name
        if target.type == "subscript":
            self.expand.inside(target, scope, index=True)
            name = name.partition("[")[0]
            self.found.evaluates = True
        values = [child for child in rest if child.is_named or child.type == "$"]
        appended = any(child.type == "+=" for child in rest)
        if rest and any(child.start_byte != rest[at].end_byte for at, child in enumerate(rest[1:])):
            self.found.mark_opaque("opaque.construct", self.expand.text(node))  # after a blank, a command starts
        if not values:
            return name, None if appended or target.type == "subscript" else Word("")
        if values[0].type == "array":
            for item in values[0].children:
                if item.type in WORDS:
                    self.expand.words(item, scope)
                elif item.is_named:
                    self.expand.inside(item, scope, index=True)
            return name, None
        value = self.expand.word(values[0], scope)
        keep = value.sure and not appended and target.type != "subscript" and len(values) == 1
        return name, value if keep else Word(UNKNOWN, fetched=value.fetched)


def _brace_words(text: str) -> list[Word]:
    return [Word(part) for part in text.strip("{}").split(",")]
