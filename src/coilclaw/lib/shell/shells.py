"""Shells and builtins that run text: `sh -c`, `eval`, `source`, `trap`, and a shell that reads its input."""

import posixpath
import re
from collections.abc import Sequence

from coilclaw.lib.shell.call import ANYTHING, Call, Feed, Findings, Scope
from coilclaw.lib.shell.words import Word

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "rbash", "yash", "posh", "ksh93", "lksh"})
SOURCE = frozenset({".", "source"})
_STDIN = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})


def shell(call: Call, found: Findings) -> Feed:
    """A shell: its `-c` text is parsed, its input too if known; a script file is just a file."""
    args = list(call.args)
    text, reads_input, index = False, False, 0
    while index < len(args):
        word = args[index]
        option = word.text
        index += 1
        if option == "--" or (option == "-" and word.literal):
            break
        if option[:1] not in {"-", "+"}:
            index -= 1
            break
        if not word.literal:
            found.mark_opaque("opaque.text", call.shown)
        if option in {"--version", "--help"}:
            return Feed("text")
        if option.startswith("--"):
            index += _long_option(option, call, found)
        else:
            index += option[-1] in "oO"
            text |= "c" in option
            reads_input |= "s" in option and "c" not in option
    rest = args[index:]
    if text:
        return run_text(rest[0] if rest else None, call, found)
    if rest and not reads_input:
        return run_file(rest[0], call, found, shell_text=True)
    return read_input(call, found)


def _long_option(option: str, call: Call, found: Findings) -> int:
    if option.startswith(("--rcfile", "--init-file")):
        found.mark_opaque("opaque.source", call.shown)
        return int("=" not in option)
    return 0


def fresh(scope: Scope) -> Scope:
    """The scope of a new shell: only the directory and the limits are certainly inherited."""
    made = Scope()
    made.cwd, made.timed, made.bounded = scope.cwd, scope.timed, scope.bounded
    made.reached_for_sure = scope.reached_for_sure
    return made


def run_text(word: Word | None, call: Call, found: Findings, scope: Scope | None = None) -> Feed:
    """Text passed to a shell: followed if literal, blocked if downloaded, otherwise opaque."""
    if word is None:
        found.mark_opaque("opaque.text", call.shown)
        return ANYTHING
    if word.fetched:
        found.block("download-run", call.shown)
    elif not word.sure or "\1" in word.text:
        found.mark_opaque("opaque.text", call.shown)
    else:
        if word.computed:
            found.mark_opaque("opaque.text", call.shown)
        return found.follow(word.text, scope or fresh(call.scope), call.feed)
    return ANYTHING


def run_file(word: Word, call: Call, found: Findings, *, shell_text: bool) -> Feed:
    """A script file; one that this command wrote or downloaded is followed or refused."""
    if word.fetched:
        found.block("download-run", call.shown)
        return ANYTHING
    if not word.sure or word.glob:
        found.mark_opaque("opaque.text", call.shown)
        return ANYTHING
    if word.text in _STDIN:
        return read_input(call, found) if shell_text else code_input(call, found)
    feed = written(word.text, call.scope, found)
    if feed is None:
        if word.text.startswith(("/dev/fd/", "/proc/self/fd/")):
            found.mark_opaque("opaque.written", call.shown)
        found.execute(call.scope, word)
        return ANYTHING
    return _run_written(feed, call, found, shell_text=shell_text)


def written(path: str, scope: Scope, found: Findings) -> Feed | None:
    """What this command wrote to a file, if anything."""
    for each in (path, *scope.paths(path)):
        if (feed := found.files.get(posixpath.normpath(each))) is not None:
            return feed
    return None


def _run_written(feed: Feed, call: Call, found: Findings, *, shell_text: bool) -> Feed:
    if feed.fetched:
        found.block("download-run", call.shown)
    elif feed.kind == "text" and shell_text:
        return found.follow(feed.text, fresh(call.scope), call.feed)
    else:
        found.mark_opaque("opaque.written", call.shown)
    return ANYTHING


def read_input(call: Call, found: Findings) -> Feed:
    """A shell that runs its input."""
    feed = call.feed
    if feed.fetched:
        found.block("download-run", call.shown)
    elif feed.kind == "text":
        return found.follow(feed.text, fresh(call.scope), ANYTHING)
    elif feed.kind == "none":
        found.mark_opaque("interpreter", call.shown)
    elif feed.kind == "file":
        found.execute(call.scope, Word(feed.text))
    else:
        found.mark_opaque("opaque.stdin", call.shown)
    return ANYTHING


def code_input(call: Call, found: Findings) -> Feed:
    """An interpreter other than a shell that runs its input."""
    if call.feed.fetched:
        found.block("download-run", call.shown)
    elif call.feed.kind == "file":
        found.execute(call.scope, Word(call.feed.text))
    else:
        found.mark_opaque("interpreter", call.shown)
    return ANYTHING


def evaluate(call: Call, found: Findings) -> Feed:
    """eval: its words, joined, are run in this shell."""
    args = call.args[1:] if call.args and call.args[0].text == "--" else call.args
    if not args:
        return Feed("text")
    whole = Word(
        " ".join(word.text for word in args),
        loose=any(word.loose or word.glob for word in args),
        computed=any(word.computed for word in args),
        fetched=any(word.fetched for word in args),
    )
    out = run_text(whole, call, found, call.scope)
    if not whole.sure:
        call.scope.forget()
        call.scope.cwd = None
    return out


def source(call: Call, found: Findings) -> Feed:
    """`.` and `source`: a file's text run in this shell."""
    call.scope.forget()
    call.scope.cwd = None
    if call.args and call.args[0].literal and call.args[0].text not in _STDIN:
        known = written(call.args[0].text, call.scope, found)
        if known is not None and not known.fetched and known.kind == "text":
            return found.follow(known.text, call.scope, call.feed)
    if call.feed.fetched or any(word.fetched for word in call.args):
        found.block("download-run", call.shown)
    if call.args:
        run_file(call.args[0], call, found, shell_text=True)
    found.mark_opaque("opaque.source", call.shown)
    return ANYTHING


def trap(call: Call, found: Findings) -> Feed:
    """trap: text kept for later."""
    args = [word for word in call.args if word.text not in {"--", "-l", "-p"}]
    if args and args[0].text not in {"", "-"} and (len(args) > 1 or not args[0].literal):
        later = fresh(call.scope)
        later.functions = call.scope.functions | found.promised
        run_text(args[0], call, found, later)
    return Feed("text")


def echoed(words: Sequence[Word]) -> Feed:
    """What echo prints, if all shells agree."""
    args = list(words)
    while args and re.fullmatch(r"-[neE]+", args[0].text):
        if "e" in args[0].text:
            return _unknown(words)
        args = args[1:]
    text = " ".join(word.text for word in args)
    return Feed("text", text + "\n") if _plain(args) and "\\" not in text else _unknown(words)


def printed(words: Sequence[Word]) -> Feed:
    """What printf prints, for plain formats."""
    if words and words[0].text == "--":
        words = words[1:]
    if not words or not _plain(words) or words[0].text == "-v":
        return _unknown(words)
    layout, args = words[0].text, [word.text for word in words[1:]]
    if re.search(r"%(?![s%])|\\(?![n\\t])", layout):
        return _unknown(words)
    layout = layout.replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")
    wanted = layout.replace("%%", "").count("%s")
    rounds = max(1, -(-len(args) // wanted)) if wanted else 1
    args += [""] * (rounds * wanted - len(args))
    values = iter(args)
    one = re.compile(r"%[s%]")
    return Feed(
        "text", "".join(one.sub(lambda m: "%" if m[0] == "%%" else next(values), layout) for _ in range(rounds))
    )


def _plain(words: Sequence[Word]) -> bool:
    return all(word.literal and not word.fetched for word in words)


def _unknown(words: Sequence[Word]) -> Feed:
    return Feed("unknown", fetched=any(word.fetched for word in words))
