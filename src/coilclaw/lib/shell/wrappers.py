"""Programs that run another program from their arguments: the inner one is judged too."""

import re
from collections.abc import Callable, Sequence

import msgspec

from coilclaw.lib.shell.call import ANYTHING, Call, Feed, Findings
from coilclaw.lib.shell.environment import assigned
from coilclaw.lib.shell.options import sort_options
from coilclaw.lib.shell.paths import by_options, line_of, settle
from coilclaw.lib.shell.patterns import overwrites, places
from coilclaw.lib.shell.programs import harmless, program
from coilclaw.lib.shell.shells import fresh, run_text
from coilclaw.lib.shell.words import MOST_WORDS, UNKNOWN, Word

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


class Wrapper(msgspec.Struct, frozen=True):
    """Where the inner command starts, and what the wrapper implies; its options are in the table."""

    skip: int = 0
    """Its own operands before the inner command."""
    assigns: bool = False
    """NAME=VALUE may precede the inner command."""
    timed: bool = False
    """It limits the inner command's time."""
    cloud: str = ""
    """A finding for every use."""


_PLAIN = Wrapper()
_RUNS = Wrapper(cloud="executes")
_RUNS_SECOND = Wrapper(1, cloud="executes")
_OUTLIVES = Wrapper(cloud="unbounded")
_TIMED = Wrapper(1, timed=True)
_PLAIN_NAMES = """
nice ionice stdbuf time doas pkexec busybox toybox chronic unbuffer caffeinate numactl eatmydata choom
tini dumb-init
"""
_RUNS_NAMES = """
unshare nsenter strace ltrace valgrind linux32 linux64 setpriv prlimit systemd-run fakeroot firejail bwrap proot
dbus-run-session xvfb-run ssh-agent entr rlwrap torsocks proxychains start-stop-daemon cpulimit
"""
WRAPPERS: dict[str, Wrapper] = {
    **dict.fromkeys(_PLAIN_NAMES.split(), _PLAIN),
    **dict.fromkeys(_RUNS_NAMES.split(), _RUNS),
    **dict.fromkeys(
        ("chrt", "chroot", "setarch", "logsave", "gosu", "su-exec", "setuidgid", "faketime", "runcon", "perf", "rr"),
        _RUNS_SECOND,
    ),
    **dict.fromkeys(("nohup", "setsid", "daemonize"), _OUTLIVES),
    **dict.fromkeys(("timeout", "gtimeout"), _TIMED),
    **dict.fromkeys(("env", "sudo"), Wrapper(assigns=True)),
    "taskset": Wrapper(1),
}
_EXECS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIND_WRITES = frozenset({"-fprint", "-fprint0", "-fprintf", "-fls"})
_FIND_READS = re.compile(r"-files0-from|-a?newer\w*|-cnewer|-samefile")
_NPX_LOCAL = ("--no-install", "--no")
"""With these it never fetches. Without them it tries to, and a box that has no network does not let it."""
_INSTALLED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_NARROWS = re.compile(
    r"-(i?name|i?path|i?regex|i?wholename|newer\w*|[amc](time|min)|size|empty|user|group|perm|inum|i?lname)"
)


def look_through(call: Call, found: Findings) -> Feed | None:
    """Judge what a wrapper would run; None if this program is not a wrapper."""
    special = _SPECIAL.get(call.name)
    if special is not None:
        return special(call, found)
    wrapper = WRAPPERS.get(call.name)
    if wrapper is None:
        return (
            _loader(call, found) if re.match(r"ld(-linux[\w-]*|-musl[\w-]*)?\.so|ld-linux|ld-musl", call.name) else None
        )
    return _unwrap(call, wrapper, found)


def _unwrap(call: Call, wrapper: Wrapper, found: Findings) -> Feed:
    if wrapper.cloud:
        found.mark_opaque(wrapper.cloud, call.shown)
    known = line_of(call)
    options = sort_options(call.args, known.valued, permute=False)
    own = len(call.args) - len(options.operands)
    scope = by_options(msgspec.structs.replace(call, args=call.args[:own]), known, options, found)
    rest = list(options.operands[wrapper.skip :])
    if call.name == "env" and rest and rest[0].text == "-":
        rest = rest[1:]
    if wrapper.timed:
        scope = scope.fork()
        scope.timed = True
    while wrapper.assigns and rest and (match := _ASSIGNMENT.fullmatch(rest[0].text)):
        assigned(match[1], Word(match[2], loose=rest[0].loose, computed=rest[0].computed), found)
        rest = rest[1:]
    if call.name == "env":
        _split_string(call, found)
    if not rest:
        if call.name in {"sudo", "doas", "pkexec"} and not options.has(
            "-l", "-v", "-V", "-k", "-K", "--list", "--version"
        ):
            found.mark_opaque("interpreter", call.shown)  # a shell, or an editor, with other rights
        return Feed("unknown")
    return found.run(rest, scope, call.feed)


def _split_string(call: Call, found: Findings) -> None:
    """`env -S`: text that becomes words."""
    for index, word in enumerate(call.args):
        split = re.match(r"-\w*S|--split-string=?|--sp\w*=?", word.text)
        if split:
            found.mark_opaque("executes", call.shown)
            rest = word.text[split.end() :].lstrip("=")
            words = [Word(rest, loose=word.loose), *call.args[index + 1 :]] if rest else call.args[index + 1 :]
            whole = " ".join(each.text for each in words)
            run_text(Word(whole, loose=any(each.loose for each in words)), call, found)
        elif not word.text.startswith("-"):
            break


def _loader(call: Call, found: Findings) -> Feed:
    found.mark_opaque("executes", call.shown)
    options = sort_options(call.args, frozenset({"--library-path", "--preload", "--argv0"}), permute=False)
    return found.run(options.operands, call.scope, call.feed) if options.operands else ANYTHING


def _xargs(call: Call, found: Findings) -> Feed:
    """xargs: a plain reader inside is fine, everything else runs on unknown arguments."""
    valued = "-I -i -n -P -L -l -s -d -E -e -a --max-args --max-procs --replace --delimiter --arg-file --max-lines"
    options = sort_options(call.args, frozenset(valued.split()) - {"-i", "-l", "-e"}, permute=False)
    found.read(call.scope, *options.values("-a", "--arg-file"))
    inner = list(options.operands)
    if not inner:
        return Feed("unknown", fetched=call.feed.fetched)
    marks = [word.text for word in options.values("-I", "--replace")] or ["{}"] * options.has("-i", "--replace")
    given = call.feed.text if call.feed.kind == "text" and not re.search(r"['\"\\]", call.feed.text) else ""
    if given and not marks:
        found.run([*inner, *(Word(text) for text in given.split()[:MOST_WORDS])], call.scope, ANYTHING)
    if marks:
        lines = [*given.split("\n")[:MOST_WORDS], UNKNOWN]
        for line in filter(None, lines):
            found.run([word.part(word.text.replace(marks[0] or "{}", line)) for word in inner], call.scope, ANYTHING)
    else:
        found.run([*inner, Word(UNKNOWN, loose=True)], call.scope, ANYTHING)
    name = inner[0].text.rpartition("/")[2]
    if name not in harmless():
        found.mark_opaque("executes", call.shown)
        if call.feed.fetched:
            found.block("download-run", call.shown)
    return Feed("unknown", fetched=call.feed.fetched)


def _find(call: Call, found: Findings) -> Feed:
    """find: its roots are read, -delete and -exec act on everything under them."""
    args = list(call.args)
    while args and args[0].text in {"-H", "-L", "-P"}:
        args = args[1:]
    start = next((at for at, word in enumerate(args) if word.text[:1] in {"-", "(", "!"}), len(args))
    roots = args[:start] or [Word(".")]
    found.read(call.scope, *roots)
    if any(word.optional for word in args):
        found.mark_opaque("opaque.argument", call.shown)
    if any(word.glob and word.text[:1] in "*?[" for word in roots):
        found.mark_opaque("opaque.glob", call.shown)
    deletes = any(word.text == "-delete" for word in args)
    for index, word in enumerate(args):
        if word.text in _EXECS:
            deletes |= _find_exec(call, roots, args[index + 1 :], found)
        elif word.text in _FIND_WRITES and index + 1 < len(args):
            overwrites(args[index + 1], call.scope, found)
        elif _FIND_READS.fullmatch(word.text) and word.text[-1] != "t":
            found.read(call.scope, *args[index + 1 : index + 2])
    if deletes:
        found.mark_opaque("executes", call.shown)
        where = {each for root in roots for each in places(root, call.scope)}
        narrow = any(_NARROWS.fullmatch(word.text) and not _spares_nothing(args, at) for at, word in enumerate(args))
        if where & {"root", "system", "home"}:
            found.block("find-delete", call.shown)
        elif "all" in where and not narrow:
            found.block("remove-all", call.shown)
        found.write(call.scope, *roots)
    return Feed("unknown")


def _spares_nothing(args: list[Word], at: int) -> bool:
    """A test for all names, or for all but some."""
    every = at + 1 < len(args) and re.fullmatch(r"[*.?]+", args[at + 1].text) is not None
    return every or (at > 0 and args[at - 1].text in {"!", "-not"})


def _find_exec(call: Call, roots: list[Word], after: list[Word], found: Findings) -> bool:
    """Judge the command of -exec; True when it removes what it is given."""
    found.mark_opaque("executes", call.shown)
    end = next((at for at, word in enumerate(after) if word.text in {";", "+"}), len(after))
    inner = [Word(word.text.replace("{}", UNKNOWN), word.glob, word.loose) for word in after[:end]]
    if inner:
        found.run(inner, call.scope, ANYTHING)
    name = inner[0].text.rpartition("/")[2] if inner else ""
    known = program(name)
    writes = known is not None and known.strict and known.operands not in {"read", "text", "guess"}
    if writes or (name in {"sed", "perl", "ruby"} and any(re.match(r"-\w*i|--in", word.text) for word in inner)):
        found.write(call.scope, *roots)
    return name in {"rm", "unlink", "shred", "srm"}


def _text_runner(call: Call, found: Findings, words: Sequence[Word]) -> Feed:
    """Programs that join their words and pass them to a shell."""
    found.mark_opaque("executes", call.shown)
    if words:
        text = " ".join(word.text for word in words)
        run_text(Word(text, loose=any(word.loose for word in words)), call, found, fresh(call.scope))
    return ANYTHING


def _watch(call: Call, found: Findings) -> Feed:
    if not call.scope.timed:
        found.mark_opaque("unbounded", call.shown)
    return _text_runner(call, found, sort_options(call.args, frozenset({"-n", "--interval"}), permute=False).operands)


def _parallel(call: Call, found: Findings) -> Feed:
    operands = sort_options(call.args, frozenset({"-j", "--jobs", "-a", "-I"}), permute=False).operands
    stop = next((at for at, word in enumerate(operands) if word.text.startswith(":::")), len(operands))
    return _text_runner(call, found, operands[:stop])


def _flock(call: Call, found: Findings) -> Feed:
    found.mark_opaque("executes", call.shown)
    options = sort_options(call.args, frozenset({"-w", "-E", "--timeout", "--wait"}), permute=False)
    inner = options.operands[1:]
    found.write(call.scope, *options.operands[:1])
    if inner and inner[0].text in {"-c", "--command"}:
        return run_text(inner[1] if len(inner) > 1 else None, call, found)
    return found.run(inner, call.scope, call.feed) if inner else ANYTHING


def _with_command(call: Call, found: Findings) -> Feed:
    """su, script, runuser, nix-shell: a shell line after an option."""
    found.mark_opaque("interpreter", call.shown)
    settle(call, found)
    options = sort_options(call.args, frozenset({"-c", "--command", "--run", "-u", "-s", "--shell", "-g"}))
    for word in options.values("-c", "--command", "--run"):
        run_text(word, call, found)
    return ANYTHING


def _hyperfine(call: Call, found: Findings) -> Feed:
    found.mark_opaque("executes", call.shown)
    for word in sort_options(call.args, frozenset({"-w", "-r", "-m", "-M", "-p", "-c", "-s", "-n", "-L"})).operands:
        run_text(word, call, found)
    return ANYTHING


def _npx(call: Call, found: Findings) -> Feed:
    """`npx NAME` runs what the folder has installed under that name; anything else it may fetch."""
    rest = call.args[1:] if call.args and call.args[0].text in _NPX_LOCAL else call.args
    if not rest or not rest[0].sure or not _INSTALLED.fullmatch(rest[0].text):
        found.mark_opaque("executes", call.shown)
        return ANYTHING
    return found.run((Word(f"node_modules/.bin/{rest[0].text}"), *rest[1:]), call.scope, call.feed)


def _runner(call: Call, found: Findings) -> Feed | None:
    """`uv run`, `poetry run`, `bundle exec`: one verb, then a command."""
    options = sort_options(call.args, frozenset({"-C", "--directory", "--project"}), permute=False)
    if not options.operands or options.operands[0].text not in {"run", "exec"}:
        return None
    rest = options.operands[1:]
    valued = frozenset(
        {"--with", "--extra", "--group", "--python", "-p", "-m", "--directory", "--project", "--env-file"}
    )
    inner = sort_options(rest, valued, permute=False)
    if inner.has("--with", "--with-requirements", "--index-url", "--index", "--script"):
        found.mark_opaque("executes", call.shown)
    return found.run(inner.operands, call.scope, call.feed) if inner.operands else ANYTHING


_SPECIAL: dict[str, Callable[[Call, Findings], Feed | None]] = {
    "xargs": _xargs,
    "find": _find,
    "watch": _watch,
    "parallel": _parallel,
    "flock": _flock,
    "su": _with_command,
    "runuser": _with_command,
    "sg": _with_command,
    "script": _with_command,
    "nix-shell": _with_command,
    "hyperfine": _hyperfine,
    "npx": _npx,
    "uv": _runner,
    "poetry": _runner,
    "pipenv": _runner,
    "pdm": _runner,
    "hatch": _runner,
    "rye": _runner,
    "bundle": _runner,
    "direnv": _runner,
}
