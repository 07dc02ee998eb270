"""git: which options, subcommands and settings make it execute something, and which paths it writes."""

import re
from collections.abc import Sequence

import msgspec

from coilclaw.lib.shell.call import ANYTHING, Call, Feed, Findings, Scope
from coilclaw.lib.shell.options import Options, sort_options
from coilclaw.lib.shell.paths import by_options
from coilclaw.lib.shell.patterns import overwrites, place
from coilclaw.lib.shell.programs import git_options, git_verb
from coilclaw.lib.shell.shells import run_text
from coilclaw.lib.shell.words import UNKNOWN, Word

_HARMLESS_KEYS = re.compile(
    r"user\.(name|email)|color\..*|core\.(quotepath|abbrev|whitespace|eol|autocrlf|safecrlf|longpaths|ignorecase)|"
    r"advice\..*|log\.(date|decorate|showsignature)|column\..*|init\.defaultbranch|pull\.(rebase|ff)|push\.default|"
    r"commit\.gpgsign|tag\.gpgsign|merge\.conflictstyle|diff\.(renames|renamelimit|algorithm|colormoved|context|noprefix)|"
    r"status\..*|gc\.auto|fetch\.prune|rebase\.(autosquash|autostash)|help\.autocorrect|branch\.\S+\.(remote|merge|rebase)|"
    r"feature\..*|rerere\.enabled|grep\.(linenumber|patterntype)|safe\.bareRepository|safe\.barerepository|core\.pager=cat",
    re.IGNORECASE,
)
_COMMAND_KEYS = re.compile(r"(?i)pager|editor|command|external|textconv|helper|proxy|fsmonitor|askpass|program|cmd$")
_EXECUTES = frozenset({
    "daemon", "difftool", "filter-branch", "instaweb", "mergetool", "send-email", "shell", "web--browse",
    "http-backend", "cvsserver", "p4", "svn", "fast-import", "credential", "gui", "citool", "gitk", "upload-pack",
    "receive-pack", "remote-ext", "remote-fd", "upload-archive", "hook", "lfs", "annex", "subtree", "maintenance",
    "request-pull", "imap-send",
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
_LISTS = {
    "branch": re.compile(r"(-a|-r|-v|-vv|--all|--remotes|--list|--show-current|--no-color| )*"),
    "stash": re.compile(r"list|show( -p| --stat| stash@\{\d+\})*"),
    "tag": re.compile(r"(--sort=\S+)?|(--sort=\S+ )*(-l|--list)( --sort=\S+)*( (?!-)\S+)?"),
    "worktree": re.compile(r"list( --porcelain)?"),
    "reflog": re.compile(r"(show)?"),
    "symbolic-ref": re.compile(r"((--short|-q) )*HEAD"),
}
"""Arguments with which subcommands that change something only list what there is."""
_TRANSPORTS = frozenset({"clone", "fetch", "pull", "push", "remote", "ls-remote", "submodule"})
_TRANSPORT = re.compile(r"(ext|fd|[a-z-]+)::")


def git(call: Call, found: Findings) -> Feed:
    """Judge one git call."""
    options = sort_options(call.args, git_options().valued, permute=False)
    scope = _globals(call, options, found)
    if not options.operands:
        return ANYTHING
    verb, rest = options.operands[0], options.operands[1:]
    if not verb.literal:
        found.mark_opaque("opaque.argument", call.shown)
        return ANYTHING
    lists = _LISTS.get(verb.text)
    listing = lists is not None and all(word.literal for word in rest) and lists.fullmatch(_spaced(rest)) is not None
    found.verbs[f"git {verb.text}{' (list)' if listing else ''}"] = None
    return _verb(verb.text, msgspec.structs.replace(call, path=f"git {verb.text}", args=rest, scope=scope), found)


def _spaced(words: Sequence[Word]) -> str:
    """Words that hold no blank themselves, with one between each."""
    return " ".join(re.sub(r"\s", "\0", word.text) for word in words)


def _globals(call: Call, options: Options, found: Findings) -> Scope:
    """Record the options before the subcommand; returns the directory it works in."""
    scope = call.scope
    for flag, value in options.flags:
        if flag == "-c":
            _setting(value, call, found)
        elif flag in {"--config-env", "-p", "--paginate", "--git-dir"} or (flag == "--exec-path" and value is not None):
            found.mark_opaque("executes", f"git {flag}")
        elif value is not None and flag in {"-C", "--work-tree"}:
            found.read(scope, value)
            scope = scope.moved(value)
            if not value.sure:
                found.mark_opaque("opaque.argument", call.shown)
        elif UNKNOWN in flag:
            found.mark_opaque("opaque.argument", call.shown)
    return scope


def _setting(value: Word | None, call: Call, found: Findings) -> None:
    text = value.text if value is not None and value.sure else UNKNOWN
    if not _HARMLESS_KEYS.fullmatch(text.partition("=")[0]) and not _HARMLESS_KEYS.fullmatch(text):
        found.mark_opaque("executes", call.shown)
        _alias(text, call, found)


def _alias(setting: str, call: Call, found: Findings) -> None:
    """The command in a setting, if it clearly is one."""
    key, _, text = setting.partition("=")
    if text.startswith("!") or (" " in text and _COMMAND_KEYS.search(key)):
        run_text(Word(text.removeprefix("!")), call, found)


def _verb(verb: str, call: Call, found: Findings) -> Feed:
    known = git_verb(verb)
    options = sort_options(call.args, known.valued)
    if verb in _EXECUTES:
        found.mark_opaque("executes", call.shown)
    by_options(call, known, options, found)
    for word in options.values("-x", "--exec"):
        run_text(word, call, found)
    _unknown(verb, options, call, found)
    special = _SPECIAL.get(verb)
    if special is not None:
        special(options, call, found)
    if verb in _TRANSPORTS and any(_TRANSPORT.match(word.text) for word in call.args):
        found.mark_opaque("executes", call.shown)
    _paths(verb, options, call, found)
    texts = {word.text for word in call.args}
    plain = verb in _TAME and all(word.sure for word in call.args) and "--show-toplevel" not in texts
    return Feed("tame") if plain or (verb == "branch" and "--show-current" in texts) else Feed("unknown")


def _unknown(verb: str, options: Options, call: Call, found: Findings) -> None:
    """An argument known only at run time matters if it could be an option that executes or writes."""
    if verb in _TAKE_ANYTHING:
        return
    values = {id(value) for _, value in options.flags if value is not None}
    for word in call.args:
        if word.text == "--":
            break
        if word.optional and (id(word) not in values or word.loose):
            found.mark_opaque("opaque.argument", call.shown)


def _config(options: Options, call: Call, found: Findings) -> None:
    reads = options.has("--get", "--get-all", "--get-regexp", "--list", "-l", "--get-urlmatch", "--show-origin")
    removes = options.has("--unset", "--unset-all", "--remove-section")
    operands = list(options.operands)
    if operands and operands[0].text in {"get", "list", "unset", "set"}:
        reads |= operands[0].text in {"get", "list"}
        operands = operands[1:]
    if not reads and (len(operands) > 1 or removes):
        for word in options.values("-f", "--file"):
            overwrites(word, call.scope, found)
    if reads or removes:
        return
    if options.has("-e", "--edit") or any(not word.sure for word in operands[:1]):
        found.mark_opaque("executes", call.shown)
    elif len(operands) > 1 and not _HARMLESS_KEYS.fullmatch(operands[0].text):
        found.mark_opaque("executes", call.shown)
        _alias(f"{operands[0].text}={operands[1].text}", call, found)


def _submodule(options: Options, call: Call, found: Findings) -> None:
    verb = options.operands[0].text if options.operands else ""
    if verb in {"foreach", "update", "add", "init"}:
        found.mark_opaque("executes", call.shown)
    if verb == "foreach" and len(options.operands) > 1:
        words = options.operands[1:]
        text = Word(" ".join(word.text for word in words), loose=any(word.loose for word in words))
        run_text(text, call, found)


def _bisect(options: Options, call: Call, found: Findings) -> None:
    del options
    if call.args and call.args[0].text == "run":
        found.mark_opaque("executes", call.shown)
        if len(call.args) > 1:
            found.run(call.args[1:], call.scope.fork(), ANYTHING)


def _everything(word: Word) -> bool:
    """A pathspec that matches everything; git matches patterns itself, quoted or not."""
    return word.sure and (word.text in {":/", ":", ":/*", ":(top)"} or place(word.text) == "all")


def _clean(options: Options, call: Call, found: Findings) -> None:
    forced = options.has("-f", "--force") and not options.has("-n", "--dry-run", "-i", "--interactive")
    if forced and options.has("-x") and all(_everything(word) for word in options.operands):
        found.block("remove-all", call.shown)


def _rm(options: Options, call: Call, found: Findings) -> None:
    spared = options.has("--cached", "-n", "--dry-run")
    if options.has("-r") and not spared and any(_everything(word) for word in options.operands):
        found.block("remove-all", call.shown)


_SPECIAL = {"config": _config, "submodule": _submodule, "bisect": _bisect, "clean": _clean, "rm": _rm}


def _paths(verb: str, options: Options, call: Call, found: Findings) -> None:
    operands = list(options.operands)
    if verb == "clone":
        found.fetches += 1
    written = _written(verb, operands, options, call)
    for word in written:
        if word.sure and word.text != "-" and not word.text.startswith(":"):
            overwrites(word, call.scope, found)
    if verb not in _BARE_VALUES:
        found.read(call.scope, *(word for word in operands if word not in written and _looks_local(word)))


def _written(verb: str, operands: list[Word], options: Options, call: Call) -> list[Word]:
    """The operands that a subcommand creates, changes or removes."""
    if verb == "clone" and len(operands) == 1 and operands[0].sure:
        name = re.sub(r"(\.git)?/?$", "", operands[0].text).rpartition("/")[2].rpartition(":")[2]
        return [Word(name or ".")]
    if verb in {"clone", "worktree", "bundle"}:
        names = operands[:1] and operands[0].text in {"add", "create", "move"}
        return operands[1:2] if verb == "clone" or names else []
    if verb == "init":
        return operands[:1]
    if verb == "checkout":
        at = next((index for index, word in enumerate(call.args) if word.text == "--"), None)
        if at is not None:
            return list(call.args[at + 1 :])
        return [word for word in operands if word.text.startswith("./") or "/" not in word.text]
    spared = options.has("--cached", "--dry-run", "-n") or (options.has("--staged", "-S") and not options.has("-W"))
    return operands if verb in {"rm", "mv", "restore", "clean"} and not spared else []


def _looks_local(word: Word) -> bool:
    text = word.text
    return ("/" in text or text[:1] in {".", "~"}) and "://" not in text and "..." not in text and ":" not in text
