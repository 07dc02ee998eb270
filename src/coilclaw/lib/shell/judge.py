"""Judges one program and its arguments: names it, looks through wrappers, and applies everything that knows it."""

import posixpath
import re
from collections.abc import Sequence

from coilclaw.lib.shell import patterns, unbounded
from coilclaw.lib.shell.builtins import BUILTINS, LISTED
from coilclaw.lib.shell.call import ANYTHING, NOTHING, Call, Feed, Findings, Scope
from coilclaw.lib.shell.executes import DOWNLOADERS, execute, output
from coilclaw.lib.shell.git import git
from coilclaw.lib.shell.interpreters import INTERPRETERS, family, interpret
from coilclaw.lib.shell.paths import settle
from coilclaw.lib.shell.programs import lines
from coilclaw.lib.shell.scripts import script
from coilclaw.lib.shell.shells import SHELLS, run_file, shell, written
from coilclaw.lib.shell.words import UNKNOWN, Word
from coilclaw.lib.shell.wrappers import WRAPPERS, look_through

KEYWORDS = frozenset({
    "if", "then", "elif", "else", "fi", "do", "done", "case", "esac", "while", "until", "for", "select", "function",
    "in", "{", "}", "!", "[[", "]]",
})  # fmt: skip
"""Words that are not programs: one as a name means that the grammar went wrong."""
_ASKS_VERSION = frozenset({"--version", "--help"})
_VERSIONS = {"node": "-v", "npm": "-v", "python": "-V", "python3": "-V", "pip": "-V", "go": "version"}


def judge(argv: Sequence[Word], scope: Scope, feed: Feed, found: Findings) -> Feed:
    """Judge one simple command; returns its output if that is known."""
    if not argv:
        return Feed("text") if feed.kind == "none" else NOTHING
    name, args = argv[0], tuple(argv[1:])
    if not all(word.sure for word in argv):
        found.unsure = True
    if name.fetched:
        found.block("download-run", name.shown)
    if not name.literal or name.computed or not name.text:
        found.mark_opaque("opaque.name", name.shown)
    if not name.literal:
        return _nameless(name, args, scope, feed, found)
    if name.text in KEYWORDS:
        found.mark_opaque("opaque.construct", name.shown)
    base = family(posixpath.basename(name.text))
    call = Call(base, name.text, args, scope, feed)
    if "/" not in name.text:
        if name.text in scope.functions:
            return _function(name.text, scope)
        builtin = BUILTINS.get(base)
        if builtin is not None:
            return _builtin(call, found)
    return _program(call, found)


def known(name: str) -> bool:
    """True for the name of a program this reader knows something about."""
    tables = (lines(), SHELLS, INTERPRETERS, WRAPPERS, patterns.DESTRUCTIVE, DOWNLOADERS)
    return name == "git" or any(name in table for table in tables)


def _nameless(name: Word, args: tuple[Word, ...], scope: Scope, feed: Feed, found: Findings) -> Feed:
    """A name known only at run time; if it is empty, the next word is the program."""
    pattern = name.text.replace(UNKNOWN, "*") if name.glob else ""
    if pattern and name.sure:
        _matched(pattern, args, scope, feed, found)
    if name.loose and args and args[0].literal and known(posixpath.basename(args[0].text)):
        found.run(args, scope, feed)
    return ANYTHING


def _matched(pattern: str, args: tuple[Word, ...], scope: Scope, feed: Feed, found: Findings) -> None:
    """A pattern as the program's name: judge the most dangerous program it could match."""
    from fnmatch import fnmatchcase

    if not re.search(r"\w", posixpath.basename(pattern)):
        return
    for dangerous in ("rm", "dd", "shutdown", "reboot", "chown", "mkfs"):
        if fnmatchcase(dangerous, posixpath.basename(pattern)):
            found.run((Word(dangerous), *args), scope, feed)


def _function(name: str, scope: Scope) -> Feed:
    scope.forget()
    if scope.functions[name]:
        scope.cwd = None
    return ANYTHING


def _builtin(call: Call, found: Findings) -> Feed:
    asks = call.name == "command" and any(re.fullmatch(r"-[pvV]*[vV]", word.text) for word in call.args[:2])
    if call.name in LISTED and call.args and not asks:
        found.programs[call.name] = None
    return BUILTINS[call.name](call, found)


def _program(call: Call, found: Findings) -> Feed:
    written_name = posixpath.basename(call.path)
    found.programs[written_name] = None
    if "/" in call.path and not _of_the_system(call):
        found.by_path.add(written_name)
    else:
        found.by_name.add(written_name)
    if "/" in call.path:
        _by_path(call, found)
    if call.name in DOWNLOADERS:
        found.fetches += 1
    patterns.check(call, found)
    if len(call.args) == 1 and (call.args[0].text in _ASKS_VERSION or _VERSIONS.get(call.name) == call.args[0].text):
        (found.worked.add if "/" in call.path else found.told.setdefault)(written_name)
        return Feed("text")
    found.worked.add(written_name)
    unbounded.check(call, found)
    execute(call, found)
    return _inner(call, found)


def _inner(call: Call, found: Findings) -> Feed:
    """What the program runs or interprets; of a plain one, only its paths."""
    if call.name in SHELLS:
        return shell(call, found)
    if call.name == "git":
        return git(call, found)
    for part in (look_through, interpret, script):
        out = part(call, found)
        if out is not None:
            return out
    settle(call, found)
    return output(call)


def _of_the_system(call: Call) -> bool:
    return posixpath.dirname(call.path).startswith(("/bin", "/usr", "/sbin", "/opt"))


def _by_path(call: Call, found: Findings) -> None:
    """A program given by path: the system's, a tool environment's, or a file in the workspace."""
    directory = posixpath.dirname(call.path)
    if known(call.name) and posixpath.basename(directory) not in {"bin", "sbin", ".bin"}:
        found.mark_opaque("opaque.impostor", call.path)
    if _of_the_system(call):
        return
    if written(call.path, call.scope, found) is not None:
        run_file(Word(call.path), call, found, shell_text=True)
    else:
        found.execute(call.scope, Word(call.path))
