"""Interpreters: distinguishes code on the command line or input from a script file."""

import re

import msgspec

from coilclaw.lib.shell.call import ANYTHING, Call, Feed, Findings
from coilclaw.lib.shell.options import sort_options
from coilclaw.lib.shell.paths import settle
from coilclaw.lib.shell.patterns import overwrites
from coilclaw.lib.shell.programs import program
from coilclaw.lib.shell.shells import code_input, run_file
from coilclaw.lib.shell.words import Word


class Interpreter(msgspec.Struct, frozen=True):
    """Which options of an interpreter contain code, take a value, or only print information."""

    code: frozenset[str]
    """Letters in a cluster of short options, and whole options."""
    valued: frozenset[str] = frozenset()
    quiet: frozenset[str] = frozenset({"--version", "--help", "-h", "-V", "-v", "-version", "-help"})
    always: bool = False
    """Its input is always code."""


def _i(code: str, valued: str = "", *, quiet: str = "", always: bool = False) -> Interpreter:
    made = Interpreter(frozenset(code.split()), frozenset(valued.split()), always=always)
    return msgspec.structs.replace(made, quiet=frozenset(quiet.split())) if quiet else made


_PYTHON = _i("c", "-W -X -Q --check-hash-based-pycs", quiet="--version --help -h -V -VV --help-all")
_NODE = _i("e p -e -p -pe -ep --eval --print", "-r --require --import --loader --experimental-loader -C --conditions",
           quiet="--version --help -h -v --test --run")  # fmt: skip
_ANY = _i("", always=True)
INTERPRETERS: dict[str, Interpreter] = {
    "python": _PYTHON, "python2": _PYTHON, "python3": _PYTHON, "pypy": _PYTHON, "pypy3": _PYTHON, "ipython": _PYTHON,
    "bpython": _PYTHON, "micropython": _PYTHON,
    "perl": _i("e E n p i M m d x", "-I", quiet="--version --help -h -v -V"),
    "ruby": _i("e n p", "-I -r -C -E -W", quiet="--version --help -h -v"),
    "node": _NODE, "nodejs": _NODE, "bun": _i("e p --eval --print -e -p"), "tsx": _NODE, "ts-node": _NODE,
    "php": _i("r R B E --run --process-code", "-d -c -z -t -S", quiet="--version --help -h -v -i -m"),
    "lua": _i("e", "-l -W"), "luajit": _i("e j", "-l"),
    "R": _i("e --expression", "-f --file", quiet="--version --help CMD"), "Rscript": _i("e", "--default-packages"),
    "julia": _i("e E -L --eval --print --load", "-p -t -J --project"), "octave": _i("--eval"),
    "groovy": _i("e"), "scala": _i("e"), "scala-cli": _i("e"), "kotlinc": _i("--expression"), "jshell": _ANY,
    "elixir": _i("e --eval --rpc-eval", "-r -pa"), "iex": _ANY, "erl": _ANY, "ghc": _i("e"), "ghci": _ANY,
    "runghc": _i("e"), "guile": _i("c", "-l -L"), "racket": _i("e --eval", "-l -t"), "sbcl": _i("--eval --load"),
    "clojure": _i("e --eval"), "clj": _ANY, "swift": _i("e"), "osascript": _i("e", "-l"), "tclsh": _i(""),
    "expect": _i("c", ""), "wish": _i(""), "gdb": _ANY, "lldb": _ANY, "ed": _ANY, "ex": _ANY, "irb": _ANY, "pry": _ANY,
    "emacs": _i("--eval --execute --batch --load -l -f --funcall --script"), "ssh": _ANY, "mosh": _ANY, "rsh": _ANY,
    "telnet": _ANY, "ftp": _ANY, "sftp": _ANY, "screen": _ANY, "tmux": _ANY, "m4": _ANY, "jrunscript": _ANY,
    **dict.fromkeys(("fish", "csh", "tcsh", "nu", "xonsh", "elvish", "rc", "es", "pwsh", "powershell", "osh"),
                    _i("c --commands --command -Command -command -EncodedCommand -enc -e", "-f")),
}  # fmt: skip

_VERSIONED = re.compile(
    r"(python|pypy|perl|ruby|lua|php|node|tclsh|pip|julia|guile|ghc|bash|gcc|g\+\+|clang|make)-?[\d.]+"
)
_SAME_MODULES = frozenset({"black", "isort", "autopep8", "yapf", "ruff"})
"""Modules with the same arguments as the program of their name."""
_CODE_MODULES = frozenset(
    {"timeit", "code", "pdb", "idlelib", "IPython", "asyncio", "cProfile", "profile", "trace", "runpy"}
)


def family(name: str) -> str:
    """The name without its version: python3.11 is python3 to us."""
    if name in INTERPRETERS:
        return name
    match = _VERSIONED.fullmatch(name)
    return match[1] if match else name


def interpret(call: Call, found: Findings) -> Feed | None:
    """Judge an interpreter; None if this program is not one."""
    known = INTERPRETERS.get(call.name)
    if known is None:
        return None
    if known.always:
        settle(call, found)
        return _flag(call, found)
    if call.name in {"perl", "ruby"}:
        _in_place(call, found)
    index = 0
    args = call.args
    while index < len(args):
        word = args[index]
        option = word.text
        index += 1
        if word.optional or (word.loose and option.startswith("-")):
            found.mark_opaque("opaque.argument", call.shown)
            return ANYTHING
        if option in known.quiet:
            return Feed("text")
        if _is_code(option, known):
            return _flag(call, found)
        if option == "--":
            continue
        if option.startswith("-m") and call.name.startswith(("python", "pypy")):
            return _module(call, args[index - 1 :], found)
        if option == "-" or not option.startswith("-"):
            return _script(word, call, found)
        if option in known.valued:
            index += 1
    return code_input(call, found)


def _is_code(option: str, known: Interpreter) -> bool:
    if not option.startswith("-") or option == "-":
        return False
    if option in known.code or option.partition("=")[0] in known.code:
        return True
    if option.startswith("--") or option[:2] in known.valued:
        return False
    letters = re.match(r"-([A-Za-z0]*)", option)
    return letters is not None and any(letter in known.code for letter in letters[1])


def _flag(call: Call, found: Findings) -> Feed:
    if call.feed.fetched or any(word.fetched for word in call.args):
        found.block("download-run", call.shown)
    found.mark_opaque("interpreter", call.shown)
    return ANYTHING


def _in_place(call: Call, found: Findings) -> None:
    """`perl -i`, `ruby -i`: every operand after the code is overwritten."""
    options = sort_options(call.args, frozenset({"-e", "-E", "-I", "-M", "-m"}))
    if any(re.match(r"-[A-Za-hj-z0]*i", word.text) for word in call.args):
        for word in options.operands if options.has("-e", "-E") else options.operands[1:]:
            overwrites(word, call.scope, found)


def _script(word: Word, call: Call, found: Findings) -> Feed:
    if word.text == "-":
        return code_input(call, found)
    if call.name in {"bun", "deno"} and word.literal and "/" not in word.text and "." not in word.text:
        return ANYTHING  # a subcommand
    out = run_file(word, call, found, shell_text=False)
    after = [
        each for each in call.args if each.text != word.text and "/" in each.text and not each.text.startswith("-")
    ]
    found.read(call.scope, *(each for each in after if "://" not in each.text))
    return out


def _module(call: Call, args: tuple[Word, ...], found: Findings) -> Feed:
    """python -m NAME …"""
    glued, *rest = args
    name = glued.text[2:] or (rest.pop(0).text if rest else "")
    if name.partition(".")[0] in _CODE_MODULES or not name or "\0" in name:
        return _flag(call, found)
    if name in {"http.server", "SimpleHTTPServer", "smtpd", "xmlrpc.server", "pydoc"} and not call.scope.timed:
        found.mark_opaque("unbounded", call.shown)
    known = name if name in _SAME_MODULES else f"python/{name}"
    if program(known) is not None:
        settle(Call(known, known, tuple(rest), call.scope, call.feed), found)
    elif name in {"pip", "pip3", "pipx", "ensurepip", "easy_install", "uv", "pytest", "coverage"}:
        _found_here(name, call, found)
        found.run((Word({"pip3": "pip"}.get(name, name)), *rest), call.scope, call.feed)
    else:
        _found_here(name, call, found)
        found.read(call.scope, *(word for word in rest if "/" in word.text and not word.text.startswith("-")))
    return ANYTHING


def _found_here(name: str, call: Call, found: Findings) -> None:
    """A file in the current folder with a module's name runs instead of the installed module."""
    module = name.replace(".", "/")
    found.find(call.scope, f"{module}.py", f"{module}/__main__.py")
