"""git: which options, subcommands and settings make it execute something, and which paths it writes."""

import re
from collections.abc import Sequence

from coilclaw.gate.command_call import ANYTHING, Call, Feed, Findings, Options, matches, sort_options
from coilclaw.gate.command_patterns import overwrites
from coilclaw.gate.command_shells import run_text
from coilclaw.gate.command_words import UNKNOWN, Word

_GLOBAL_VALUED = frozenset({
    "-c", "-C", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix", "--attr-source",
})  # fmt: skip
_HARMLESS_KEYS = re.compile(
    r"user\.(name|email)|color\..*|core\.(quotepath|abbrev|whitespace|eol|autocrlf|safecrlf|longpaths|ignorecase)|"
    r"advice\..*|log\.(date|decorate|showsignature)|column\..*|init\.defaultbranch|pull\.(rebase|ff)|push\.default|"
    r"commit\.gpgsign|tag\.gpgsign|merge\.conflictstyle|diff\.(renames|renamelimit|algorithm|colormoved|context|noprefix)|"
    r"status\..*|gc\.auto|fetch\.prune|rebase\.(autosquash|autostash)|help\.autocorrect|branch\.\S+\.(remote|merge|rebase)|"
    r"feature\..*|rerere\.enabled|grep\.(linenumber|patterntype)|safe\.bareRepository|safe\.barerepository|core\.pager=cat",
    re.IGNORECASE,
)
_EXECUTES = frozenset({
    "daemon", "difftool", "filter-branch", "instaweb", "mergetool", "send-email", "shell", "web--browse",
    "http-backend", "cvsserver", "p4", "svn", "fast-import", "credential", "gui", "citool", "gitk", "upload-pack",
    "receive-pack", "remote-ext", "remote-fd", "upload-archive", "hook", "lfs", "annex", "subtree", "maintenance",
    "request-pull", "imap-send",
})  # fmt: skip
_RUNS: dict[str, frozenset[str]] = {
    "rebase": frozenset({"-x", "--exec", "-i", "--interactive"}),
    "grep": frozenset({"-O", "--open-files-in-pager"}),
    "clone": frozenset({"-u", "--upload-pack", "-c", "--config", "--template", "--recurse-submodules", "--recursive"}),
    "init": frozenset({"--template"}),
    "fetch": frozenset({"--upload-pack", "--recurse-submodules"}),
    "pull": frozenset({"--upload-pack"}),
    "push": frozenset({"--receive-pack", "--exec"}),
    "ls-remote": frozenset({"--upload-pack", "--exec"}),
    "fetch-pack": frozenset({"--upload-pack", "--exec"}),
    "send-pack": frozenset({"--receive-pack", "--exec"}),
    "archive": frozenset({"--exec", "--remote"}),
    "help": frozenset({"-w", "--web"}),
    "cat-file": frozenset({"--textconv", "--filters"}),
    "blame": frozenset({"--textconv"}),
    "diff": frozenset({"--ext-diff", "--textconv"}),
    "log": frozenset({"--ext-diff", "--textconv"}),
    "show": frozenset({"--ext-diff", "--textconv"}),
    "format-patch": frozenset({"--ext-diff", "--textconv"}),
    "whatchanged": frozenset({"--ext-diff", "--textconv"}),
    "reflog": frozenset({"--ext-diff", "--textconv"}),
    "stash": frozenset({"--ext-diff", "--textconv"}),
    "var": frozenset(),
}
_VALUED = frozenset({
    "-m", "-F", "-C", "-c", "-n", "-o", "-b", "-B", "-u", "-x", "-O", "-L", "-S", "-G", "-t", "-e", "-s",
    "--message", "--file", "--author", "--date", "--format", "--pretty", "--since", "--until", "--after",
    "--before", "--grep", "--exec", "--upload-pack", "--receive-pack", "--template", "--branch", "--depth",
    "--origin", "--reference", "--config", "--output", "--remote", "--prefix", "--max-count", "--onto",
    "--strategy", "--cleanup", "--trailer", "--separate-git-dir", "--filter", "--jobs",
})  # fmt: skip
_TAKE_ANYTHING = frozenset({
    "add", "status", "commit", "checkout", "switch", "branch", "tag", "rev-parse", "merge-base", "restore", "reset",
    "ls-files", "mv", "rm", "describe", "shortlog", "cherry-pick", "rev-list", "merge", "symbolic-ref", "name-rev",
    "show-ref", "for-each-ref", "update-index", "check-ignore", "ls-tree", "cherry", "revert", "notes",
    "hash-object", "diff-tree", "worktree", "clean", "apply", "am", "count-objects", "remote", "stash",
    "sparse-checkout",
})  # fmt: skip
_BARE_VALUES = frozenset({"commit", "tag", "notes", "stash", "merge"})
_TAME = frozenset({"rev-parse", "merge-base", "describe", "symbolic-ref", "rev-list", "hash-object", "write-tree"})
_TRANSPORT = re.compile(r"(ext|fd|[a-z-]+)::")


def git(call: Call, found: Findings) -> Feed:
    """Judge one git call."""
    options = sort_options(call.args, _GLOBAL_VALUED, permute=False)
    _globals(call, options, found)
    if not options.operands:
        return ANYTHING
    verb, rest = options.operands[0], options.operands[1:]
    if not verb.literal:
        found.cloud("opaque.argument", call.shown)
        return ANYTHING
    return _verb(verb.text, rest, call, found)


def _globals(call: Call, options: Options, found: Findings) -> None:
    for flag, value in options.flags:
        if flag == "-c":
            _setting(value, call, found)
        elif flag in {"--config-env", "-p", "--paginate", "--git-dir"} or (flag == "--exec-path" and value is not None):
            found.cloud("executes", f"git {flag}")
        elif value is not None and flag in {"-C", "--work-tree"}:
            found.read(call.scope, value)
            if not value.sure:
                found.cloud("opaque.argument", call.shown)
        elif UNKNOWN in flag:
            found.cloud("opaque.argument", call.shown)


def _setting(value: Word | None, call: Call, found: Findings) -> None:
    text = value.text if value is not None and value.sure else UNKNOWN
    if not _HARMLESS_KEYS.fullmatch(text.partition("=")[0]) and not _HARMLESS_KEYS.fullmatch(text):
        found.cloud("executes", call.shown)
        _alias(text.partition("=")[2], call, found)


def _alias(text: str, call: Call, found: Findings) -> None:
    if text.startswith("!"):
        run_text(Word(text[1:]), call, found)


def _verb(verb: str, rest: Sequence[Word], call: Call, found: Findings) -> Feed:
    options = sort_options(rest, _VALUED)
    runs = _RUNS.get(verb, frozenset())
    if verb in _EXECUTES:
        found.cloud("executes", call.shown)
    for flag, value in options.flags:
        if matches(flag, runs):
            found.cloud("executes", f"git {verb} {flag}")
            if value is not None and flag in {"-x", "--exec"}:
                run_text(value, call, found)
        elif matches(flag, ("--output",)) and value is not None:
            overwrites(value, call.scope, found)
    _unknown(verb, rest, options, call, found)
    special = _SPECIAL.get(verb)
    if special is not None:
        special(options, rest, call, found)
    if any(_TRANSPORT.match(word.text) for word in rest) and verb in {"clone", "fetch", "pull", "push", "remote",
                                                                     "ls-remote", "submodule"}:  # fmt: skip
        found.cloud("executes", call.shown)
    _paths(verb, options, call, found)
    plain = verb in _TAME and all(word.sure for word in rest) and "--show-toplevel" not in {word.text for word in rest}
    quiet = verb == "branch" and any(word.text == "--show-current" for word in rest)
    return Feed("tame") if plain or quiet else Feed("unknown")


def _unknown(verb: str, rest: Sequence[Word], options: Options, call: Call, found: Findings) -> None:
    """An argument that only running tells matters where it could be an option that executes or writes."""
    if verb in _TAKE_ANYTHING:
        return
    values = {id(value) for _, value in options.flags if value is not None}
    for word in rest:
        if word.text == "--":
            break
        if word.optional and (id(word) not in values or word.loose):
            found.cloud("opaque.argument", call.shown)


def _config(options: Options, rest: Sequence[Word], call: Call, found: Findings) -> None:
    reads = options.has("--get", "--get-all", "--get-regexp", "--list", "-l", "--get-urlmatch", "--show-origin")
    removes = options.has("--unset", "--unset-all", "--remove-section")
    operands = list(options.operands)
    if operands and operands[0].text in {"get", "list", "unset", "set"}:
        reads |= operands[0].text in {"get", "list"}
        operands = operands[1:]
    if reads or removes:
        return
    if options.has("-e", "--edit") or any(not word.sure for word in operands[:1]):
        found.cloud("executes", call.shown)
    elif len(operands) > 1 and not _HARMLESS_KEYS.fullmatch(operands[0].text):
        found.cloud("executes", call.shown)
        _alias(operands[1].text, call, found)
    del rest


def _submodule(options: Options, rest: Sequence[Word], call: Call, found: Findings) -> None:
    verb = options.operands[0].text if options.operands else ""
    if verb in {"foreach", "update", "add", "init"}:
        found.cloud("executes", call.shown)
    if verb == "foreach" and len(options.operands) > 1:
        words = options.operands[1:]
        text = Word(" ".join(word.text for word in words), loose=any(word.loose for word in words))
        run_text(text, call, found)
    del rest


def _bisect(options: Options, rest: Sequence[Word], call: Call, found: Findings) -> None:
    del options
    if rest and rest[0].text == "run":
        found.cloud("executes", call.shown)
        if len(rest) > 1:
            found.run(rest[1:], call.scope.fork(), ANYTHING)


def _grep(options: Options, rest: Sequence[Word], call: Call, found: Findings) -> None:
    del options
    if any(re.match(r"-O", word.text) for word in rest):
        found.cloud("executes", call.shown)


_SPECIAL = {"config": _config, "submodule": _submodule, "bisect": _bisect, "grep": _grep}


def _paths(verb: str, options: Options, call: Call, found: Findings) -> None:
    operands = list(options.operands)
    if verb == "clone":
        found.fetches += 1
        if len(operands) > 1:
            overwrites(operands[1], call.scope, found)
        elif operands and operands[0].sure:
            name = re.sub(r"(\.git)?/?$", "", operands[0].text).rpartition("/")[2].rpartition(":")[2]
            overwrites(Word(name or "."), call.scope, found)
    elif verb in {"init", "worktree"}:
        named = operands[1:2] if verb == "worktree" and operands[:1] and operands[0].text == "add" else operands[:1]
        for word in named if verb == "init" or len(operands) > 1 else ():
            overwrites(word, call.scope, found)
    elif verb in {"rm", "mv", "restore", "checkout", "apply"}:
        for word in operands:
            if word.sure and _looks_local(word):
                found.write(call.scope, word) if verb in {"rm", "mv"} else found.read(call.scope, word)
    elif verb not in _BARE_VALUES:
        found.read(call.scope, *(word for word in operands if _looks_local(word)))
    found.read(call.scope, *options.values("-F", "--file"))


def _looks_local(word: Word) -> bool:
    text = word.text
    return ("/" in text or text[:1] in {".", "~"}) and "://" not in text and "..." not in text and ":" not in text
