"""The shell's own commands: not programs, but some change what programs mean, where they run, or run text."""

import re
from collections.abc import Callable

from coilclaw.lib.shell.call import ANYTHING, NOTHING, Call, Feed, Findings
from coilclaw.lib.shell.environment import assigned
from coilclaw.lib.shell.options import sort_options
from coilclaw.lib.shell.shells import echoed, evaluate, printed, run_text, source, trap
from coilclaw.lib.shell.words import Word

Builtin = Callable[[Call, Findings], Feed]

LISTED = frozenset({"eval", "exec", "command", "builtin", ".", "source", "trap", "coproc", "time"})
"""Builtins that execute something, and are therefore listed as programs."""
_QUIET = frozenset({
    "true", "false", ":", "test", "[", "shift", "return", "exit", "break", "continue", "wait", "jobs", "bg", "fg",
    "umask", "ulimit", "type", "times", "caller", "dirs", "compopt", "history", "logout", "suspend", "set", "help",
    "shopt", "unalias", "select",
})  # fmt: skip
_INDEXED = re.compile(r"\$\(|`|\$\{")


def _quiet(call: Call, found: Findings) -> Feed:
    if call.name in {"test", "["} and any(_INDEXED.search(word.text) for word in call.args):
        found.mark_opaque("opaque.index", call.shown)
    return NOTHING


def _echo(call: Call, found: Findings) -> Feed:
    del found
    return echoed(call.args)


def _printf(call: Call, found: Findings) -> Feed:
    if call.args and call.args[0].text == "-v":
        _names(call, found, call.args[1:2])
    return printed(call.args)


def _cd(call: Call, found: Findings) -> Feed:
    operands = sort_options(call.args).operands
    scope = call.scope
    if not operands:
        scope.change("~")
        return NOTHING
    target = operands[0]
    found.read(scope, target)
    scope.change(None if re.fullmatch(r"[+-]\d+", target.text) else scope.reached(target))
    return NOTHING


def _popd(call: Call, found: Findings) -> Feed:
    del found
    call.scope.cwd = None
    return NOTHING


def _pwd(call: Call, found: Findings) -> Feed:
    del call, found
    return Feed("cwd")


def _names(call: Call, found: Findings, names: tuple[Word, ...]) -> None:
    """Variables that a builtin fills: their values are unknown now, and some names execute."""
    for word in names:
        if not word.literal or not re.fullmatch(r"\w+(\[[\w@*]+\])?", word.text):
            found.mark_opaque("opaque.builtin", call.shown)
        else:
            assigned(word.text, None, found)
            call.scope.variables[word.text.partition("[")[0]] = None


def _read(call: Call, found: Findings) -> Feed:
    options = sort_options(call.args, frozenset({"-d", "-i", "-n", "-N", "-p", "-t", "-u", "-a"}))
    _names(call, found, options.operands + options.values("-a"))
    return NOTHING


def _mapfile(call: Call, found: Findings) -> Feed:
    options = sort_options(call.args, frozenset({"-d", "-n", "-O", "-s", "-u", "-C", "-c"}))
    for word in options.values("-C"):
        found.mark_opaque("opaque.builtin", call.shown)
        run_text(word, call, found)
    _names(call, found, options.operands)
    return NOTHING


def _getopts(call: Call, found: Findings) -> Feed:
    _names(call, found, call.args[1:2])
    return NOTHING


def _let(call: Call, found: Findings) -> Feed:
    found.evaluates = True
    if any(_INDEXED.search(word.text) or ("[" in word.text and not word.sure) for word in call.args):
        found.mark_opaque("opaque.index", call.shown)
    return NOTHING


def _alias(call: Call, found: Findings) -> Feed:
    for word in call.args:
        if "=" in word.text or not word.literal:
            found.mark_opaque("opaque.alias", call.shown)
            run_text(Word(word.text.partition("=")[2], loose=word.loose, fetched=word.fetched), call, found)
    return NOTHING


def _changing(call: Call, found: Findings) -> Feed:
    """Builtins whose options load code or bind commands to names, keys or completions."""
    options = sort_options(call.args, frozenset({"-p", "-f", "-C", "-F", "-W", "-x", "-e", "-s"}))
    if call.name in {"fc", "bind", "enable"} or options.has("-p", "-f", "-C", "-F", "-x", "-e", "-s", "-W"):
        found.mark_opaque("opaque.builtin", call.shown)
        for word in options.values("-C"):
            run_text(word, call, found)
    return NOTHING


def _disown(call: Call, found: Findings) -> Feed:
    found.mark_opaque("unbounded", call.shown)
    return NOTHING


def _declare(call: Call, found: Findings) -> Feed:
    """A declaration that the grammar does not recognise, as after `builtin` or `command`."""
    for word in call.args:
        name, equals, value = word.text.partition("=")
        if not word.text.startswith("-"):
            if not re.fullmatch(r"\w+\+?", name):
                found.mark_opaque("opaque.builtin", call.shown)
            elif equals:
                assigned(name.rstrip("+"), Word(value, loose=word.loose), found)
                call.scope.variables[name.rstrip("+")] = None
    return NOTHING


def _exec(call: Call, found: Findings) -> Feed:
    options = sort_options(call.args, frozenset({"-a"}), permute=False)
    return found.run(options.operands, call.scope, call.feed) if options.operands else NOTHING


def _command(call: Call, found: Findings) -> Feed:
    options = sort_options(call.args, permute=False)
    if options.has("-v", "-V") or not options.operands:
        return ANYTHING
    return found.run(options.operands, call.scope, call.feed)


def _coproc(call: Call, found: Findings) -> Feed:
    found.mark_opaque("opaque.builtin", call.shown)
    found.mark_opaque("unbounded", call.shown)
    args = [word for word in call.args if word.text not in {"{", "(", "}", ")"}]
    return found.run(args, call.scope.fork(), ANYTHING) if args else NOTHING


def _time(call: Call, found: Findings) -> Feed:
    options = sort_options(call.args, frozenset({"-f", "-o"}), permute=False)
    found.write(call.scope, *options.values("-o"))
    return found.run(options.operands, call.scope, call.feed) if options.operands else NOTHING


BUILTINS: dict[str, Builtin] = {
    **dict.fromkeys(_QUIET, _quiet),
    **dict.fromkeys(("declare", "typeset", "export", "readonly", "local"), _declare),
    **dict.fromkeys(("hash", "enable", "complete", "compgen", "bind", "fc"), _changing),
    "echo": _echo,
    "printf": _printf,
    "cd": _cd,
    "chdir": _cd,
    "pushd": _cd,
    "popd": _popd,
    "pwd": _pwd,
    "read": _read,
    "mapfile": _mapfile,
    "readarray": _mapfile,
    "getopts": _getopts,
    "let": _let,
    "alias": _alias,
    "disown": _disown,
    "eval": evaluate,
    ".": source,
    "source": source,
    "trap": trap,
    "exec": _exec,
    "command": _command,
    "builtin": _command,
    "coproc": _coproc,
    "time": _time,
}
"""What the shell does itself."""
