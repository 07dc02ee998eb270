"""One program about to run, where it stands, and what has been found so far."""

import posixpath
import re
from collections.abc import Callable, Sequence

import msgspec

from coilclaw.lib.shell.rules import reason
from coilclaw.lib.shell.words import UNKNOWN, Word
from coilclaw.packets.decision import Reason
from coilclaw.packets.workspace import OWNER_ONLY, RUNTIME_ONLY

BUDGET = 3000
"""Commands looked at before giving up; loops and nested text count each time."""


class Feed(msgspec.Struct, frozen=True):
    """What flows out of one command and into another."""

    kind: str
    """`none` the shell's own input, `text` known text, `file` a named file, `unknown` anything else."""
    text: str = ""
    fetched: bool = False
    """A downloader stands somewhere upstream."""


NOTHING = Feed("none")
ANYTHING = Feed("unknown")


class Scope:
    """What the shell knows at one place: variables, functions, the directory, and what bounds the command."""

    __slots__ = ("bounded", "certain", "cwd", "functions", "timed", "variables")

    def __init__(self) -> None:
        self.variables: dict[str, Word | None] = {}
        self.functions: dict[str, bool] = {}
        """Functions this text defines, and whether they change the directory."""
        self.cwd: str | None = ""
        """Relative to where it started; None when only running tells."""
        self.certain = True
        """False where a command may not be reached."""
        self.timed = False
        """Something ends it after a while."""
        self.bounded = False
        """Something downstream takes only so much."""

    def fork(self, *, certain: bool | None = None) -> "Scope":
        """A copy for a subshell, a pipe or a branch: what happens there stays there."""
        made = Scope()
        made.variables = dict(self.variables)
        made.functions = dict(self.functions)
        made.cwd, made.timed, made.bounded = self.cwd, self.timed, self.bounded
        made.certain = self.certain if certain is None else certain
        return made

    def unsettle(self, other: "Scope") -> None:
        """Take back a branch that may or may not have run: whatever it changed is unknown now."""
        for name, value in other.variables.items():
            if self.variables.get(name, msgspec.UNSET) != value:
                self.variables[name] = None
        if other.cwd != self.cwd:
            self.cwd = None

    def moved(self, directory: Word) -> "Scope":
        """A copy that stands in another directory."""
        made = self.fork()
        made.cwd = self.reached(directory)
        return made

    def reached(self, directory: Word) -> str | None:
        """Where changing to a directory leads."""
        if not directory.literal or directory.text == "-":
            return None
        if directory.text.startswith(("/", "~")):
            return directory.text
        return None if self.cwd is None else posixpath.join(self.cwd, directory.text)

    def forget(self) -> None:
        """Something ran that may have changed any variable."""
        self.variables = dict.fromkeys(self.variables)

    def paths(self, path: str) -> tuple[str, ...]:
        """Where a path as written may lead: from the start, and from every directory changed to."""
        if not self.cwd or path.startswith(("/", "~")):
            return (path,)
        return (posixpath.join(self.cwd, path), path)


class Call(msgspec.Struct, frozen=True):
    """One program with its arguments, as far as they are known."""

    name: str
    path: str
    args: tuple[Word, ...]
    scope: Scope
    feed: Feed

    @property
    def shown(self) -> str:
        """For people."""
        return " ".join((self.path, *(word.shown for word in self.args)))


class Findings:
    """Everything read so far; the tree walk and the judges write here."""

    def __init__(self) -> None:
        self.programs: dict[str, None] = {}
        self.blocked: dict[Reason, None] = {}
        self.opaque: dict[Reason, None] = {}
        self.reads: dict[str, None] = {}
        self.writes: dict[str, None] = {}
        self.files: dict[str, Feed] = {}
        """What this very text puts into files, to know it again when it is run."""
        self.links: dict[str, str] = {}
        self.budget = BUDGET
        self.nesting = 0
        self.volume = 0
        self.promised: dict[str, bool] = {}
        """Functions defined before any of them is called: bodies may name them in any order."""
        self.fetches = 0
        """How many downloaders were met so far."""
        self.evaluates = False
        """Arithmetic on variables stands somewhere."""
        self.smuggles = False
        """Quoted text looks like an array index with a command in it."""
        self.follow: Callable[[str, Scope, Feed], Feed] = _nowhere
        """Reads shell text found inside this one."""
        self.run: Callable[[Sequence[Word], Scope, Feed], Feed] = _nobody
        """Judges a program found inside another's arguments."""

    def block(self, rule: str, subject: str) -> None:
        """Note a destructive pattern."""
        self.blocked[reason(f"command.destructive.{rule}", subject)] = None

    def mark_opaque(self, rule: str, subject: str = "") -> None:
        """Note something that cannot be plainly allowed."""
        self.opaque[reason(f"command.{rule}", subject)] = None

    def read(self, scope: Scope, *words: Word) -> None:
        """Note paths that would be read; of an unknown one, the directory it begins with."""
        for given in words:
            word = given if UNKNOWN not in given.text else given.stem
            if not word.loose and word.text not in {"", "-"}:
                self._hidden(word)
                for path in scope.paths(word.path):
                    self.reads[path] = None

    def write(self, scope: Scope, *words: Word) -> None:
        """Note paths that would be written; an unknown one is opaque."""
        for word in words:
            if not word.sure:
                self.mark_opaque("opaque.target", word.shown)
                if stem := word.stem.text:
                    self.writes |= dict.fromkeys(scope.paths(stem))
            elif word.text:
                self._hidden(word)
                if word.glob and pattern_protected(word.text):
                    self.mark_opaque("opaque.glob", word.shown)
                if scope.cwd is None and not word.text.startswith(("/", "~")):
                    self.mark_opaque("opaque.directory", word.shown)
                for path in scope.paths(word.path):
                    self.writes[path] = None
                    self._linked(path)

    def link(self, scope: Scope, path: str, target: str) -> None:
        """Remember a link this very text makes, so that writing through it is understood."""
        for each in scope.paths(path):
            self.links[posixpath.normpath(each)] = target

    def _linked(self, path: str) -> None:
        for link, target in self.links.items():
            rest = posixpath.normpath(path)
            if rest == link or rest.startswith(link + "/"):
                self.writes[posixpath.join(posixpath.dirname(link), target) + rest[len(link) :]] = None

    def keep(self, scope: Scope, path: str, content: Feed, *, append: bool = False) -> None:
        """Remember what went into a file, so that running that file later is understood."""
        for each in scope.paths(path):
            name = posixpath.normpath(each)
            before = self.files.get(name)
            if before is None:
                before = ANYTHING if append else Feed("text")
            elif not append:
                before = Feed(before.kind, before.text + "\n", before.fetched)  # either may stand there in the end
            plain = before.kind == content.kind == "text"
            text = before.text + content.text if plain else ""
            self.files[name] = Feed("text" if plain else "unknown", text, before.fetched or content.fetched)

    def _hidden(self, word: Word) -> None:
        """A pattern that could reach what its spelling does not show."""
        if word.glob and pattern_hides(word.text):
            self.mark_opaque("opaque.glob", word.shown)


_EVERY_ONE = re.compile(r"\*+(\.\w+)?")


def pattern_protected(text: str) -> bool:
    """True when a pattern is cut to a name that commands may not write; `*` and `*.md` are cut to none."""
    from fnmatch import fnmatch

    top = posixpath.normpath(text).partition("/")[0]
    if _EVERY_ONE.fullmatch(top) or not any(c in top for c in "*?["):
        return False
    return any(fnmatch(name, top) for name in (*OWNER_ONLY, *RUNTIME_ONLY))


def pattern_hides(text: str) -> bool:
    """True when a pattern may match a dot name, a top-level directory, or a directory on an absolute path."""
    outside = text.startswith(("/", "~")) or ".." in text.split("/")
    parts = [part for part in text.split("/") if part]
    last = len(parts) - 1
    for index, part in enumerate(parts):
        if any(c in part for c in "*?["):
            if part[0] == "." or (outside and (index < last or index == 0)):
                return True
            if outside and part[0] != "*" and index < 2:
                return True
    return False


def _nowhere(text: str, scope: Scope, feed: Feed) -> Feed:
    raise NotImplementedError(text, scope, feed)


def _nobody(argv: Sequence[Word], scope: Scope, feed: Feed) -> Feed:
    raise NotImplementedError(argv, scope, feed)
