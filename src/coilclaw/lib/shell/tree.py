"""The walk over a parsed command: which programs run, in which order, fed by what.

Node kinds are whitelisted: whatever is not known here is opaque. Nothing is run and nothing is decided.
"""

import re
from functools import cache
from typing import TYPE_CHECKING

from coilclaw.lib.shell.call import ANYTHING, NOTHING, Feed, Findings, Scope
from coilclaw.lib.shell.environment import assigned
from coilclaw.lib.shell.expand import WORDS, Expander, indexes
from coilclaw.lib.shell.heredoc import lift
from coilclaw.lib.shell.judge import judge, known
from coilclaw.lib.shell.loops import fork_bomb, goes_on_forever, takes_only_so_much
from coilclaw.lib.shell.patterns import overwrites
from coilclaw.lib.shell.simple import REDIRECTS, Commands, Target
from coilclaw.lib.shell.words import Word

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

DEEPEST = 40
MOST_ITEMS = 12
MOST_TEXT = 1 << 18
"""Total characters to parse, including nested text."""
MOST_INTRICATE = 1000
"""The grammar takes quadratic time over these characters; real commands contain few."""

_NOT_ASCII = re.compile(rb"[\x80-\xff]")
"""Hidden from the parser, byte for byte: to a shell they are letters, but the grammar's scanner looks them up in
tables made for single bytes and can crash the process."""
_CD = re.compile(r"cd +(?!-)(?!(?:\S*/)?\.\.(?:/|$))[A-Za-z0-9_./-]+")
"""A change of directory that leads where it says if it succeeds."""
_OTHER_CD = re.compile(rb"\bcd\s*\(|\bfunction\s+cd\b|\bcdable_vars\b")
"""What may give `cd` another meaning, wherever it stands."""
_TEST_OPERATOR = re.compile(r"-([a-hknoprstuvwxzGLNORS]|eq|ne|lt|le|gt|ge|nt|ot|ef)")


@cache
def parser() -> "Parser":
    """The parser, created on first use."""
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def walk(text: str, scope: Scope, feed: Feed, found: Findings) -> Feed:
    """Parse shell text into the findings; returns its output if that is known."""
    if found.nesting >= DEEPEST:
        found.mark_opaque("opaque.depth")
        return ANYTHING
    lifted = lift(text)
    if not lifted.sure:
        found.mark_opaque("opaque.heredoc")
    found.volume += len(text)
    if found.volume > MOST_TEXT or any(lifted.text.count(char) > MOST_INTRICATE for char in "()[]|=~"):
        found.mark_opaque("unparsed", "too intricate")
        return ANYTHING
    source = lifted.text.encode()
    root = parser().parse(_NOT_ASCII.sub(b"x", source)).root_node
    if root.has_error:
        found.mark_opaque("unparsed")
    walker = _Walker(source, found)
    walker.expand = Expander(source, lifted.bodies, found, walker.substituted)
    found.other_cd |= _OTHER_CD.search(source) is not None
    walker.promise(root)
    return walker.visit(root, scope, feed)


class _Walker(Commands):
    def visit(self, node: "Node", scope: Scope, feed: Feed, outer: tuple["Node", ...] = ()) -> Feed:
        """One statement. `outer` are redirections attached to a list that belong to its last command."""
        found = self.found
        found.budget -= 1
        if found.nesting >= DEEPEST or found.budget < 0:
            found.mark_opaque("opaque.depth")
            return ANYTHING
        found.nesting += 1
        try:
            kind = node.type
            if kind == "redirected_statement":
                inner = [child for child in node.children if child.type not in REDIRECTS]
                mine = tuple(child for child in node.children if child.type in REDIRECTS)
                self.gaps(node)
                if inner:
                    return self.visit(inner[0], scope, feed, mine + outer)
                feed, targets, argv = self.redirects(mine + outer, scope, feed)
                return self.landed(judge(argv, scope, feed, found), targets, scope)
            if kind == "command":
                return self.command(node, scope, feed, outer)
            if kind == "pipeline":
                return self.pipeline(node, scope, feed, outer)
            if kind == "list":
                return self.chain(node, scope, feed, outer)
            return self.compound(node, scope, feed, outer)
        finally:
            found.nesting -= 1

    def compound(self, node: "Node", scope: Scope, feed: Feed, outer: tuple["Node", ...]) -> Feed:
        """Everything that is not a plain command: redirections first, then the node's own visitor."""
        before = self.found.fetches
        targets: list[Target] = []
        if outer:
            feed, targets, extra = self.redirects(outer, scope, feed)
            if extra:
                self.found.mark_opaque("opaque.construct", extra[0].shown)
        visitor = _VISITORS.get(node.type)
        out = ANYTHING
        if visitor is None:
            self.strange(node, scope, feed)
        else:
            out = visitor(self, node, scope, feed) or ANYTHING
        out = Feed(out.kind, out.text, out.fetched or self.found.fetches > before)
        return self.landed(out, targets, scope)

    def promise(self, root: "Node") -> None:
        """Functions defined before the first call may call each other in any order."""
        if b"()" not in self.source and b"function" not in self.source:
            return
        defined = {
            self.expand.text(name): child
            for child in root.children
            if child.type == "function_definition" and (name := child.child_by_field_name("name")) is not None
        }
        for child in root.children:
            text = self.expand.text(child)
            if child.type == "function_definition":
                self.found.promised |= {name: False for name, node in defined.items() if node == child}
            elif not text.startswith("trap ") and any(name in text for name in defined):
                break

    # lists, pipes and groups

    def sequence(self, node: "Node", scope: Scope, feed: Feed) -> Feed:
        """Statements one after the other; an `&` lets one outlive the others."""
        out = NOTHING
        statements = 0
        self.gaps(node)
        for child in node.children:
            if child.type == "&":
                self.found.mark_opaque("unbounded", "&")
            elif child.is_named and child.type not in {"comment", "heredoc_body", "heredoc_end"}:
                statements += 1
                out = self.visit(child, scope, feed)
        return out if statements == 1 else ANYTHING

    def chain(self, node: "Node", scope: Scope, feed: Feed, outer: tuple["Node", ...]) -> Feed:
        """`a && b || c`: all but the first may not be reached."""
        links = [node]
        while links[-1].children and links[-1].children[0].type == "list":
            links.append(links[-1].children[0])
        parts = [links[-1].children[0]]
        both = True
        for link in reversed(links):
            self.gaps(link)
            parts += [child for child in link.children[1:] if child.is_named and child.type != "comment"]
            both = both and all(child.type == "&&" for child in link.children[1:] if not child.is_named)
        sure = self.step(parts[0], scope, feed) and both
        for index, part in enumerate(parts[1:], 2):
            if self.found.budget < 0:
                break
            branch = scope.fork(certain=False)
            branch.reached_for_sure = sure
            sure = self.step(part, branch, feed, outer if index == len(parts) else ()) and sure
            self.keep(scope, branch)
        return ANYTHING

    def step(self, node: "Node", scope: Scope, feed: Feed, outer: tuple["Node", ...] = ()) -> bool:
        """One part of a list; whether it is known where the next one runs, if this one succeeds."""
        before = scope.reached_for_sure
        goes = _CD.fullmatch(self.expand.text(node)) is not None and not self.found.other_cd and not outer
        self.visit(node, scope, feed, outer)
        return scope.reached_for_sure or (before and goes)

    def keep(self, scope: Scope, branch: Scope) -> None:
        """Continue after `&&` or `||`: a changed directory is one more possibility."""
        cwd = branch.cwd
        scope.reached_for_sure &= cwd == scope.cwd
        scope.unsettle(branch)
        scope.cwd = cwd

    def pipeline(self, node: "Node", scope: Scope, feed: Feed, outer: tuple["Node", ...]) -> Feed:
        """Each stage reads from the previous one; a downloader upstream taints all that follow."""
        self.gaps(node)
        stages = [child for child in node.children if child.is_named and child.type != "comment"]
        current = feed
        last_bound = max(
            (at for at, stage in enumerate(stages) if takes_only_so_much(self.expand.text(stage))), default=-1
        )
        for index, stage in enumerate(stages):
            if self.found.budget < 0:
                break
            before = self.found.fetches
            inner = scope.fork()
            inner.bounded = scope.bounded or index < last_bound
            out = self.visit(stage, inner, current, outer if index == len(stages) - 1 else ())
            kind = "unknown" if out.kind == "none" else out.kind
            current = Feed(kind, out.text, current.fetched or out.fetched or self.found.fetches > before)
        return current

    def subshell(self, node: "Node", scope: Scope, feed: Feed) -> Feed:
        """A copy of the shell."""
        return self.sequence(node, scope.fork(), feed)

    def group(self, node: "Node", scope: Scope, feed: Feed) -> Feed:
        """`{ …; }`, or an arithmetic command, which a plain shell parses as two subshells."""
        if not node.children or node.children[0].type != "((":
            return self.sequence(node, scope, feed)
        self.expand.inside(node, scope)
        inside = self.expand.text(node)[2:-2]
        first = re.match(r"[\s(]*([\w./-]+)(\s+[-/~\w])?", inside)
        bare = first is not None and first[0] == inside.rstrip()
        if (first and (first[2] or known(first[1]) or bare)) or "`" in inside:
            self.found.mark_opaque("opaque.construct", inside)
            self.found.follow(inside, scope.fork(), feed)
        for path in re.findall(r">\s*([^\s()&|;<>]*/[^\s()&|;<>]*)", inside):
            overwrites(Word(path), scope, self.found)
        return NOTHING

    def substituted(self, node: "Node", scope: Scope, feed: Feed) -> Feed:
        """The inside of `$(…)`, backticks or `<(…)`."""
        if self.found.nesting >= DEEPEST:
            self.found.mark_opaque("opaque.depth")
            return ANYTHING
        redirects = tuple(child for child in node.children if child.type in REDIRECTS)
        if redirects:
            self.redirects(redirects, scope, feed)
            return ANYTHING
        feeding = self.expand.feeding
        self.found.nesting += 1
        try:
            return self.sequence(node, scope, feed)
        finally:
            self.found.nesting -= 1
            self.expand.feeding = feeding

    # assignments and declarations

    def variable(self, node: "Node", scope: Scope, feed: Feed) -> None:
        """An assignment that stays."""
        self.gaps(node)
        nodes = node.children if node.type == "variable_assignments" else [node]
        self.expand.feeding = feed
        for each in nodes:
            if each.type == "variable_assignment":
                name, value = self.assignment(each, scope)
                assigned(name, value, self.found)
                scope.variables[name] = value

    def declaration(self, node: "Node", scope: Scope, feed: Feed) -> None:
        """`export`, `declare` and the like."""
        self.gaps(node)
        for child in node.children[1:]:
            if child.type == "variable_assignment":
                self.variable(child, scope, feed)
            elif child.type in WORDS:
                word = self.expand.word(child, scope)
                options = word.text.startswith("-")
                if not word.literal or "=" in word.text or (options and "n" in word.text):
                    self.found.mark_opaque("opaque.builtin", self.expand.text(node))
                elif not options:
                    scope.variables[word.text] = None
                self.found.evaluates |= options and "i" in word.text
            elif child.is_named and child.type != "comment":
                self.strange(child, scope, feed)

    def unset(self, node: "Node", scope: Scope, feed: Feed) -> None:
        """`unset`: the variable becomes unknown."""
        del feed
        self.gaps(node)
        for child in node.children[1:]:
            word = self.expand.word(child, scope)
            if not word.literal or "$" in word.text or "`" in word.text:
                self.found.mark_opaque("opaque.index", self.expand.text(node))
            scope.variables.pop(word.text, None)
            scope.functions.pop(word.text, None)

    # branches and loops

    def branch(self, nodes: list["Node"], scope: Scope, feed: Feed) -> None:
        """Statements that may not be reached."""
        before = scope.fork(certain=False)
        inner = scope.fork(certain=False)
        for child in nodes:
            if child.type == "&":
                self.found.mark_opaque("unbounded", "&")
            elif child.type in {"elif_clause", "else_clause"}:
                other = before.fork()
                self.visit(child, other, feed)
                scope.unsettle(other)
            elif child.is_named and child.type != "comment":
                self.visit(child, inner, feed)
        scope.unsettle(inner)

    def conditional(self, node: "Node", scope: Scope, feed: Feed) -> None:
        """if, elif, else."""
        self.gaps(node)
        self.branch(node.children, scope, feed)

    def case(self, node: "Node", scope: Scope, feed: Feed) -> None:
        """case: patterns contain no commands unless expanded."""
        self.gaps(node)
        for child in node.children:
            if child.type == "case_item":
                self.gaps(child)
                self.case_item(child, scope, feed)
            elif child.type in WORDS:
                self.expand.words(child, scope)
            elif child.is_named and child.type != "comment":
                self.strange(child, scope, feed)

    def case_item(self, node: "Node", scope: Scope, feed: Feed) -> None:
        """One branch of a case: patterns, then statements."""
        statements: list[Node] = []
        for child in node.children:
            if child.type in WORDS:
                self.expand.words(child, scope)
            elif child.is_named or child.type == "&":
                statements.append(child)
        self.branch(statements, scope, feed)

    def loop(self, node: "Node", scope: Scope, feed: Feed) -> None:
        """while and until: the body may run any number of times."""
        self.gaps(node)
        if goes_on_forever(node, self.source) and not scope.timed:
            self.found.mark_opaque("unbounded", self.expand.text(node))
        self.unsettled(node, scope)
        self.branch(node.children, scope, feed)

    def unsettled(self, node: "Node", scope: Scope) -> None:
        """Variables assigned in a loop may have the value of an earlier round."""
        text = self.source[node.start_byte : node.end_byte]
        if re.search(rb"\b(cd|pushd|popd)\b", text):
            scope.cwd = None
        for name in re.findall(rb"(?<![\w$])(\w+)\+?=", text):
            scope.variables[name.decode()] = None

    def counting(self, node: "Node", scope: Scope, feed: Feed) -> None:
        """for ((…; …; …))."""
        self.gaps(node)
        if goes_on_forever(node, self.source) and not scope.timed:
            self.found.mark_opaque("unbounded", self.expand.text(node))
        self.unsettled(node, scope)
        self.found.evaluates = True
        bodies: list[Node] = []
        for child in node.children:
            if child.type in {"do_group", "compound_statement"}:
                bodies.append(child)
            elif child.type == "variable_assignment":
                name, _ = self.assignment(child, scope)
                scope.variables[name] = None
            elif child.is_named:
                self.expand.inside(child, scope)
        self.branch(bodies, scope, feed)

    def each(self, node: "Node", scope: Scope, feed: Feed) -> None:
        """for x in …: a few plain items are followed one by one, otherwise x is unknown."""
        self.gaps(node)
        items: list[Word] = []
        bodies: list[Node] = []
        name = ""
        for child in node.children:
            if child.type == "variable_name" and not name:
                name = self.expand.text(child)
            elif child.type in WORDS:
                items += self.expand.words(child, scope)
            elif child.type in {"do_group", "compound_statement"}:
                bodies.append(child)
            elif child.is_named and child.type != "comment":
                self.strange(child, scope, feed)
        assigned(name, None, self.found)
        self.unsettled(node, scope)
        plain = 0 < len(items) <= MOST_ITEMS and all(item.sure for item in items)
        values: list[Word | None] = [*items] if plain and self.found.nesting < 8 else [None]
        for value in values:
            scope.variables[name] = value
            self.branch(bodies, scope, feed)
        scope.variables[name] = None

    def function(self, node: "Node", scope: Scope, feed: Feed) -> None:
        """A function: its body is parsed at its definition, with unknown arguments."""
        self.gaps(node)
        name, body = "", None
        redirects: list[Node] = []
        for child in node.children:
            if child.type == "word" and not name:
                name = self.expand.text(child)
            elif child.type in REDIRECTS:
                redirects.append(child)
            elif child.is_named and child.type != "comment":
                body = child
        if body is None:
            self.found.mark_opaque("unparsed")
            return
        if fork_bomb(name, body, self.source):
            self.found.block("fork-bomb", self.expand.text(node))
        inner = scope.fork(certain=True)
        inner.variables, inner.cwd = {}, scope.cwd
        inner.functions |= self.found.promised
        inner.functions[name] = False
        self.visit(body, inner, ANYTHING, tuple(redirects))
        if scope.certain:
            scope.functions[name] = inner.cwd != scope.cwd

    def test(self, node: "Node", scope: Scope, feed: Feed) -> Feed:
        """`[ … ]` and `[[ … ]]`: not a command, but words that may contain some, and shells without `[[` see a list."""
        del feed
        self.gaps(node)
        single = node.children[0].type == "["
        if single and re.search(r"(?<!\\)\n", self.expand.text(node)):
            self.found.mark_opaque("opaque.construct", self.expand.text(node))
        todo = list(node.children)
        while todo:
            child = todo.pop()
            kind = child.type
            if kind == "binary_expression":
                self.comparison(child, scope, single=single)
                todo += child.children
            elif kind in {"unary_expression", "parenthesized_expression"}:
                todo += child.children
            elif kind == "test_operator":
                if not _TEST_OPERATOR.fullmatch(self.expand.text(child)):
                    self.found.mark_opaque("opaque.construct", self.expand.text(node))
            elif single and kind in {"&&", "||", "|", "&", ";", "<"}:
                self.found.mark_opaque("opaque.construct", self.expand.text(node))
            elif kind in WORDS:
                self.operand(child, scope)
            elif child.is_named:
                self.expand.inside(child, scope)
        return NOTHING

    def comparison(self, node: "Node", scope: Scope, *, single: bool) -> None:
        """Two sides and an operator: `>` writes in `[`, and after `||` a plain shell runs what `[[` compares."""
        operator, right = node.child_by_field_name("operator"), node.child_by_field_name("right")
        if operator is None or right is None:
            self.found.mark_opaque("opaque.construct", self.expand.text(node))
        elif operator.type == ">":
            target = self.expand.word(right, scope)
            if single or "/" in target.text:
                overwrites(target, scope, self.found)
        elif operator.type in {"&&", "||"}:
            first = right
            while first.type == "binary_expression" and first.children:
                first = first.children[0]
            if first.type == "word":
                self.found.mark_opaque("opaque.construct", self.expand.text(node))

    def operand(self, node: "Node", scope: Scope) -> None:
        """A word of a test; one that looks like an array index with a command in it is evaluated."""
        text = self.expand.text(node)
        if node.type in {"raw_string", "string"} and indexes(text):
            self.found.mark_opaque("opaque.index", text)
        if node.type == "concatenation":
            self.expand.inside(node, scope, index="[" in text)
        else:
            self.expand.words(node, scope)


_VISITORS = {
    "program": _Walker.sequence,
    "compound_statement": _Walker.group,
    "do_group": _Walker.sequence,
    "subshell": _Walker.subshell,
    "negated_command": _Walker.sequence,
    "if_statement": _Walker.conditional,
    "elif_clause": _Walker.conditional,
    "else_clause": _Walker.conditional,
    "case_statement": _Walker.case,
    "while_statement": _Walker.loop,
    "for_statement": _Walker.each,
    "c_style_for_statement": _Walker.counting,
    "function_definition": _Walker.function,
    "test_command": _Walker.test,
    "declaration_command": _Walker.declaration,
    "unset_command": _Walker.unset,
    "variable_assignment": _Walker.variable,
    "variable_assignments": _Walker.variable,
}
