"""Which paths a program would read and write, and which of its options or unknown arguments execute something."""

import re

from coilclaw.lib.shell.call import Call, Findings, Scope
from coilclaw.lib.shell.options import Options, matches, sort_options
from coilclaw.lib.shell.patterns import overwrites
from coilclaw.lib.shell.programs import Program, any_program, program
from coilclaw.lib.shell.words import Word

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_FILE_URL = re.compile(r"file:(?://[^/]*)?(/.*)", re.IGNORECASE)
_REMOTE = re.compile(r"[\w.-]+(@[\w.-]+)?:(?!//)[^\s]*")
_GLUED = re.compile(r"-\w([/~].*)")
_DATA = re.compile(r"[^@<]*[@<]([^;]+)")
_LEADING_PATTERN = frozenset("*?[")
_EATS_OPTIONS = frozenset({"tar", "rsync", "zip", "7z", "chown", "chmod", "scp", "find"})


def settle(call: Call, found: Findings) -> None:
    """Record what one program reads, writes and executes by its own options."""
    known = line_of(call)
    options = sorted_for(call, known)
    if known.strict:
        _strict(call, options, found)
    scope = by_options(call, known, options, found)
    _operands(call, options, known, scope, found)


def line_of(call: Call) -> Program:
    """What is known about this program, or about its subcommand."""
    verb = next((word.text for word in call.args if not word.text.startswith("-")), "")
    return program(f"{call.name}/{verb}") or program(call.name) or any_program()


def sorted_for(call: Call, known: Program) -> Options:
    """A call's arguments, sorted as its program does."""
    args = call.args
    if known.pairs:
        args = tuple(word for at, word in enumerate(args) if not at or args[at - 1].text not in known.pairs)
    return sort_options(args, known.valued, words=known.words)


def by_options(call: Call, known: Program, options: Options, found: Findings) -> Scope:
    """Record what the options do; returns the base directory of the operands."""
    scope = call.scope
    for word in call.args:
        if known.prefixes and word.text.startswith(known.prefixes):
            found.mark_opaque("executes", call.shown)
            found.read(scope, *([word.part(word.text[1:])] if word.text.startswith("@") else []))
        elif match := _FILE_URL.match(word.text):
            found.read(scope, word.part(match[1]))
    for flag, value in options.flags:
        if value is not None and matches(flag, known.inside):
            found.read(scope, value)
            if known.operands != "read" and value.sure:
                found.write(scope, value)
            scope = scope.moved(value)
    spared = options.has(*known.spares)
    for flag, value in options.flags:
        _option(flag, value, call, known, found, spared=spared)
    return scope


def path_like(word: Word) -> bool:
    """True for text that looks like a path rather than a word."""
    text = word.text
    return ("/" in text or text[:1] in {"~", "."}) and not _URL.match(text) and "\n" not in text


def _strict(call: Call, options: Options, found: Findings) -> None:
    """Arguments known only at run time, in a program where one could be dangerous."""
    guarded = [word.text for word in call.args].index("--") if any(w.text == "--" for w in call.args) else None
    values = {id(value) for _, value in options.flags if value is not None}
    for index, word in enumerate(call.args):
        if (id(word) in values and not word.loose) or (guarded is not None and index > guarded):
            continue
        if word.optional:
            found.mark_opaque("opaque.argument", f"{call.path} {word.shown}")
        elif word.glob and word.text[:1] in _LEADING_PATTERN and call.name in _EATS_OPTIONS:
            found.mark_opaque("opaque.glob", f"{call.path} {word.shown}")


def _option(flag: str, value: Word | None, call: Call, known: Program, found: Findings, *, spared: bool) -> None:
    def one_of(names: frozenset[str]) -> bool:
        return flag in names if flag in known.valued else matches(flag, names)

    if one_of(known.runs):
        found.mark_opaque("executes", f"{call.path} {flag}")
        if value is not None and value.literal and " " in value.text:
            found.follow(value.text, call.scope.fork(), call.feed)
    if value is None or value.text == "-":
        return
    if one_of(known.writes):
        found.read(call.scope, value) if spared else overwrites(value, call.scope, found)
    elif one_of(known.reads) or (flag not in known.valued and path_like(value)):
        found.read(call.scope, value)
    elif one_of(known.data) and (match := _DATA.match(value.text)):
        found.read(call.scope, value.part(match[1]))
    elif known.operands == "guess" and path_like(value):
        found.read(call.scope, value)


def _operands(call: Call, options: Options, known: Program, scope: Scope, found: Findings) -> None:
    operands = list(options.operands)
    if known.skip and not options.has(*known.instead):
        operands = operands[known.skip :]
    kind = known.operands
    if options.has(*known.edits):
        kind = "write"
    elif kind not in {"text", "guess"} and options.has(*known.spares):
        kind = "read"
    if kind == "guess":
        glued = (word.part(match[1]) for word in call.args if (match := _GLUED.fullmatch(word.text)))
        found.read(scope, *(word for word in (*operands, *glued) if path_like(word)))
    elif kind != "text":
        read, written = _shared(kind, operands, call, options)
        found.read(scope, *(word for word in read if not _REMOTE.fullmatch(word.text)))
        for word in written:
            _write(word, call, options, scope, found)
        if call.name == "ln" and len(read) == len(written) == 1 and read[0].sure and written[0].sure:
            found.link(scope, written[0].path, read[0].text)


def _shared(kind: str, operands: list[Word], call: Call, options: Options) -> tuple[list[Word], list[Word]]:
    """The operands that are read, and those that are written."""
    if kind == "read":
        return operands, []
    if kind == "first":
        return operands[1:], operands[:1]
    if kind == "last":
        split = len(operands) if options.has("-t", "--target-directory") else max(len(operands) - 1, 1)
        split = 0 if call.name == "install" and options.has("-d", "--directory") else split
        linked = operands[:split] if call.name == "ln" and not options.has("-s", "--symbolic") else []
        return operands[:split], [*linked, *operands[split:]]  # a second name for a file is a way to write it
    return [], operands


def _write(word: Word, call: Call, options: Options, scope: Scope, found: Findings) -> None:
    if word.text != "-" and not (call.name in {"rsync", "scp"} and _REMOTE.fullmatch(word.text)):
        overwrites(word, scope, found)
    if call.name == "tee" and word.sure:
        found.keep(scope, word.path, call.feed, append=options.has("-a", "--append"))
