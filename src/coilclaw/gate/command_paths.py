"""Which paths a program would read and write, and which of its options or unknown arguments execute something."""

import re

from coilclaw.gate.command_call import Call, Findings, Options, matches, sort_options
from coilclaw.gate.command_patterns import overwrites
from coilclaw.gate.command_programs import Program, programs
from coilclaw.gate.command_words import Word

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_REMOTE = re.compile(r"[\w.-]+(@[\w.-]+)?:(?!//)[^\s]*")
_GLUED = re.compile(r"-\w([/~].*)")
_LEADING_PATTERN = frozenset("*?[")
_EATS_OPTIONS = frozenset({"tar", "rsync", "zip", "7z", "chown", "chmod", "scp", "find"})


def settle(call: Call, found: Findings) -> None:
    """Note what one program reads, writes and executes by its own options."""
    program = programs().get(call.name)
    if program is None:
        _unknown(call, found)
        return
    options = sort_options(call.args, program.valued)
    if program.strict:
        _strict(call, options, found)
    if any(word.text.partition("=")[0] in program.runs for word in call.args):
        found.cloud("executes", call.shown)
    for flag, value in options.flags:
        _option(flag, value, call, program, found)
    _operands(call, options, program, found)


def path_like(word: Word) -> bool:
    """True for text that looks like a path rather than a word."""
    text = word.text
    return ("/" in text or text[:1] in {"~", "."}) and not _URL.match(text) and "\n" not in text


def _unknown(call: Call, found: Findings) -> None:
    for word in call.args:
        text = word.text
        if text.startswith("-"):
            value = text.partition("=")[2] or (glued[1] if (glued := _GLUED.fullmatch(text)) else "")
            word = Word(value, word.glob, word.loose)  # noqa: PLW2901
        if path_like(word):
            found.read(call.scope, word)


def _strict(call: Call, options: Options, found: Findings) -> None:
    """Arguments that only running tells, in a program where one could be dangerous."""
    guarded = [word.text for word in call.args].index("--") if any(w.text == "--" for w in call.args) else None
    values = {id(value) for _, value in options.flags if value is not None}
    for index, word in enumerate(call.args):
        if (id(word) in values and not word.loose) or (guarded is not None and index > guarded):
            continue
        if word.optional:
            found.cloud("opaque.argument", f"{call.path} {word.shown}")
        elif word.glob and word.text[:1] in _LEADING_PATTERN and call.name in _EATS_OPTIONS:
            found.cloud("opaque.glob", f"{call.path} {word.shown}")


def _option(flag: str, value: Word | None, call: Call, program: Program, found: Findings) -> None:
    if matches(flag, program.runs):
        found.cloud("executes", f"{call.path} {flag}")
        if value is not None and value.literal and " " in value.text:
            found.follow(value.text, call.scope.fork(), call.feed)
    elif value is not None and matches(flag, program.writes):
        if value.text != "-":
            overwrites(value, call.scope, found)
    elif value is not None and (matches(flag, program.reads) or flag in {"-f", "--file", "--from-file"}):
        found.read(call.scope, value)
    elif value is not None and value.text.startswith("@"):
        found.read(call.scope, Word(value.text[1:], value.glob, value.loose))


def _operands(call: Call, options: Options, program: Program, found: Findings) -> None:
    operands = list(options.operands)
    if program.text and not options.has(*program.replaces):
        operands = operands[program.text :]
    scope = call.scope
    if program.operands == "read":
        found.read(scope, *operands)
    elif program.operands in {"write", "move"}:
        for word in operands:
            if word.text != "-":
                overwrites(word, scope, found)
            if call.name == "tee" and word.sure:
                found.keep(scope, word.path, call.feed, append=options.has("-a", "--append"))
    elif program.operands == "last":
        split = len(operands) if options.has("-t", "--target-directory") else max(len(operands) - 1, 1)
        split = 0 if call.name == "install" and options.has("-d", "--directory") else split
        found.read(scope, *(word for word in operands[:split] if not _REMOTE.fullmatch(word.text)))
        for word in operands[split:]:
            if not _REMOTE.fullmatch(word.text):
                overwrites(word, scope, found)
