"""One program about to run, its scope, and the findings so far."""

import posixpath
import re
from collections.abc import Callable, Sequence

import msgspec

from coilclaw.lib.shell.rules import reason
from coilclaw.lib.shell.words import UNKNOWN, Word
from coilclaw.packets.decision import Reason
from coilclaw.packets.workspace import OWNER_ONLY, RUNTIME_ONLY

BUDGET = 3000
"""Maximum commands to analyse; loops and nested text count each time."""


class Feed(msgspec.Struct, frozen=True):
    """What flows out of one command and into another."""

    kind: str
    """`none` the shell's own input, `text` known text, `file` a named file, `unknown` anything else."""
    text: str = ""
    fetched: bool = False
    """There is a downloader upstream."""


NOTHING = Feed("none")
ANYTHING = Feed("unknown")


class Scope:
    """The shell's state at one point: variables, functions, the directory, and what limits the command."""

    __slots__ = ("bounded", "certain", "cwd", "functions", "reached_for_sure", "timed", "variables")

    def __init__(self) -> None:
        self.variables: dict[str, Word | None] = {}
        self.functions: dict[str, bool] = {}
        """Functions this text defines, and whether they change the directory."""
        self.cwd: str | None = ""
        """Relative to the start; None if it is only known at run time."""
        self.reached_for_sure = True
        """Whatever runs at this point is in that directory: every change of it has succeeded."""
        self.certain = True
        """False if a command may not be reached."""
        self.timed = False
        """It has a timeout."""
        self.bounded = False
        """A downstream command stops reading after a while."""

    def fork(self, *, certain: bool | None = None) -> "Scope":
        """A copy for a subshell, a pipe or a branch: what happens there stays there."""
        made = Scope()
        made.variables = dict(self.variables)
        made.functions = dict(self.functions)
        made.cwd, made.timed, made.bounded = self.cwd, self.timed, self.bounded
        made.reached_for_sure = self.reached_for_sure
        made.certain = self.certain if certain is None else certain
        return made

    def unsettle(self, other: "Scope") -> None:
        """Merge a branch that may not have run: whatever it changed is unknown."""
        for name, value in other.variables.items():
            if self.variables.get(name, msgspec.UNSET) != value:
                self.variables[name] = None
        if other.cwd != self.cwd:
            self.cwd = None

    def moved(self, directory: Word) -> "Scope":
        """A copy in another directory."""
        made = self.fork()
        made.cwd = self.reached(directory)
        made.reached_for_sure &= ".." not in directory.text.split("/")
        return made

    def change(self, cwd: str | None) -> None:
        """Be in another directory from here on, if it is there."""
        self.cwd = cwd
        self.reached_for_sure = False

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
        """What a path may refer to: from the start, and from every directory changed to.

        One that begins with `..` would lead out of the start, so that counts only where it may be used there.
        """
        if not self.cwd or path.startswith(("/", "~")):
            return (path,)
        there = posixpath.join(self.cwd, path)
        return (there,) if self.reached_for_sure and path.startswith("..") else (there, path)


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
    """All findings; the tree walk and the judges write here."""

    def __init__(self) -> None:
        self.programs: dict[str, None] = {}
        self.by_path: set[str] = set()
        """Names of programs given by a path to a file, outside the system's folders."""
        self.by_name: set[str] = set()
        """Names of programs given in any other way."""
        self.told: dict[str, None] = {}
        """Names of programs that were asked about themselves."""
        self.worked: set[str] = set()
        """Names of programs that were run in any other way."""
        self.verbs: dict[str, None] = {}
        self.executes: dict[str, None] = {}
        self.unsure = False
        self.blocked: dict[Reason, None] = {}
        self.opaque: dict[Reason, None] = {}
        self.reads: dict[str, None] = {}
        self.writes: dict[str, None] = {}
        self.files: dict[str, Feed] = {}
        """What this text writes into files, to recognise it when it is run."""
        self.links: dict[str, str] = {}
        self.budget = BUDGET
        self.nesting = 0
        self.volume = 0
        self.promised: dict[str, bool] = {}
        """Functions defined before any of them is called: bodies may name them in any order."""
        self.other_cd = False
        """`cd` may not be the builtin, or not lead where it says."""
        self.fetches = 0
        """The number of downloaders so far."""
        self.evaluates = False
        """There is arithmetic on variables."""
        self.smuggles = False
        """Quoted text looks like an array index with a command in it."""
        self.follow: Callable[[str, Scope, Feed], Feed] = _nowhere
        """Parses shell text found inside this one."""
        self.run: Callable[[Sequence[Word], Scope, Feed], Feed] = _nobody
        """Judges a program found inside another's arguments."""

    def block(self, rule: str, subject: str) -> None:
        """Record a destructive pattern."""
        self.blocked[reason(f"command.destructive.{rule}", subject)] = None

    def mark_opaque(self, rule: str, subject: str = "") -> None:
        """Record something that cannot simply be allowed."""
        self.opaque[reason(f"command.{rule}", subject)] = None

    def read(self, scope: Scope, *words: Word) -> None:
        """Record paths that would be read; of an unknown one, its leading directory."""
        for given in words:
            word = given if UNKNOWN not in given.text else given.stem
            if not word.loose and word.text not in {"", "-"}:
                self._hidden(word)
                for path in scope.paths(word.path):
                    self.reads[path] = None

    def execute(self, scope: Scope, word: Word) -> None:
        """Record a file whose content would be run, and thus read."""
        self.read(scope, word)
        self.find(scope, word.path)

    def find(self, scope: Scope, *names: str) -> None:
        """Record files that a program finds by fixed names and runs."""
        for name in names:
            self.executes |= dict.fromkeys(scope.paths(name))

    def write(self, scope: Scope, *words: Word) -> None:
        """Record paths that would be written; an unknown one is opaque."""
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
        """Remember a link that this text creates, to follow writes through it."""
        for each in scope.paths(path):
            self.links[posixpath.normpath(each)] = target

    def _linked(self, path: str) -> None:
        for link, target in self.links.items():
            rest = posixpath.normpath(path)
            if rest == link or rest.startswith(link + "/"):
                self.writes[posixpath.join(posixpath.dirname(link), target) + rest[len(link) :]] = None

    def keep(self, scope: Scope, path: str, content: Feed, *, append: bool = False) -> None:
        """Remember what was written to a file, to follow running it later."""
        for each in scope.paths(path):
            name = posixpath.normpath(each)
            before = self.files.get(name)
            if before is None:
                before = ANYTHING if append else Feed("text")
            elif not append:
                before = Feed(before.kind, before.text + "\n", before.fetched)  # either may be there in the end
            plain = before.kind == content.kind == "text"
            text = before.text + content.text if plain else ""
            self.files[name] = Feed("text" if plain else "unknown", text, before.fetched or content.fetched)

    def _hidden(self, word: Word) -> None:
        """Record a pattern that could match more than its spelling shows."""
        if word.glob and pattern_hides(word.text):
            self.mark_opaque("opaque.glob", word.shown)


_EVERY_ONE = re.compile(r"\*+(\.\w+)?")


def pattern_protected(text: str) -> bool:
    """True if a pattern targets a name that commands may not write; `*` and `*.md` do not."""
    from fnmatch import fnmatch

    top = posixpath.normpath(text).partition("/")[0]
    if _EVERY_ONE.fullmatch(top) or not any(c in top for c in "*?["):
        return False
    return any(fnmatch(name, top) for name in (*OWNER_ONLY, *RUNTIME_ONLY))


def pattern_hides(text: str) -> bool:
    """True if a pattern may match a dot name, a top-level directory, or a directory on an absolute path."""
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
