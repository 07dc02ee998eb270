"""Programs that fetch code and run it, or execute something by a subcommand, an option or their input."""

import re
from collections.abc import Callable

import msgspec

from coilclaw.lib.shell.call import ANYTHING, Call, Feed, Findings
from coilclaw.lib.shell.options import sort_options
from coilclaw.lib.shell.paths import by_options, line_of, sorted_for
from coilclaw.lib.shell.patterns import overwrites
from coilclaw.lib.shell.programs import program
from coilclaw.lib.shell.shells import run_text, written
from coilclaw.lib.shell.words import Word

DOWNLOADERS = frozenset({
    "curl", "wget", "fetch", "aria2c", "http", "https", "xh", "lynx", "w3m", "links", "elinks", "nc", "ncat",
    "netcat", "socat", "lwp-request", "GET", "axel", "ftp", "tftp", "ssh", "scp", "sftp", "gsutil", "s3cmd",
    "rclone", "youtube-dl", "telnet",
})  # fmt: skip
_ALWAYS = frozenset({
    "uvx", "bunx", "pnpx", "at", "batch", "systemd-run", "xdg-open", "open", "gio", "docker-compose",
    "podman-compose", "vagrant", "ansible", "ansible-playbook", "salt", "run-parts", "watchexec", "nodemon", "entr",
    "incron", "dpkg", "rpm", "installer", "easy_install", "sdkmanager", "xdotool", "gnome-terminal", "xterm",
    "sensible-browser", "insmod", "modprobe", "mount", "umount", "iptables", "nft", "sysctl", "visudo", "useradd",
    "usermod", "passwd", "chpasswd", "setcap", "rpmbuild", "debuild", "lftp", "capsh",
})  # fmt: skip
_CMAKE_VERBS = {
    "copy": "cp", "copy_if_different": "cp", "copy_directory": "cp -r", "rename": "mv", "touch": "touch", "rm": "rm",
    "touch_nocreate": "touch", "remove": "rm", "remove_directory": "rm -r", "make_directory": "mkdir",
    "create_symlink": "ln -s", "create_hardlink": "ln", "cat": "cat", "env": "env", "time": "time", "chdir": "env -C",
    "tar": "tar", "md5sum": "md5sum", "sha256sum": "sha256sum", "compare_files": "cmp",
}  # fmt: skip
_MAKEFILES = ("Makefile", "makefile", "GNUmakefile")
_MAKE_RUNS = frozenset({"SHELL", ".SHELLFLAGS", "MAKEFLAGS", "MAKE"})
_MAKE_WRITES = frozenset({"DESTDIR", "prefix", "PREFIX", "O", "OUT", "OUTDIR", "BUILD_DIR", "BUILDDIR"})
_SQLITE_RUNS = re.compile(
    r"^\s*\.(sh|sy|loa|onc|out|imp|read|save|bac|open|log|clon|ar|trace)|"
    r"load_extension|(edit|readfile|writefile)\s*\(|\battach\b|\bvacuum\b.*\binto\b",
    re.MULTILINE | re.IGNORECASE,
)


def execute(call: Call, found: Findings) -> None:
    """Record whatever makes this program run something else."""
    name = call.name
    if name in _ALWAYS:
        found.mark_opaque("executes", call.shown)
    known = program(name)
    if known is not None and known.verbs:
        _subcommand(call, known.verbs, found)
    special = _SPECIAL.get(name)
    if special is not None:
        special(call, found)


def _subcommand(call: Call, verbs: frozenset[str], found: Findings) -> None:
    if not call.args and call.name == "yarn":
        found.mark_opaque("executes", call.shown)
    may_be_value = False
    for word in call.args:
        if word.optional:
            found.mark_opaque("opaque.argument", call.shown)
        if word.text in verbs:
            found.mark_opaque("executes", call.shown)
        if not word.text.startswith("-") and not may_be_value:
            break
        may_be_value = word.text.startswith("-") and "=" not in word.text


def _make(call: Call, found: Findings) -> None:
    options = sorted_for(call, line_of(call))
    files = options.values("-f", "--file", "--makefile")
    if any(word.text in {"-", "/dev/stdin"} for word in files):
        found.mark_opaque("executes", call.shown)
    if any(written(name, call.scope, found) for name in (*(word.text for word in files), *_MAKEFILES)):
        found.mark_opaque("opaque.written", call.shown)
    scope = call.scope
    for word in options.values("-C", "--directory"):
        scope = scope.moved(word)
    found.find(scope, *(word.path for word in files or map(Word, _MAKEFILES)))
    for word in options.operands:
        name, equals, value = word.text.partition("=")
        if name in _MAKE_WRITES and value:
            found.write(call.scope, word.part(value))
        if word.optional:
            found.mark_opaque("opaque.argument", call.shown)
        elif equals and (name.strip(":+?") in _MAKE_RUNS or re.search(r"\$\(|`|\$\{|!", value)):
            found.mark_opaque("executes", call.shown)
    if any(word.loose for word in (*files, *options.values("-C", "--directory"))):
        found.mark_opaque("opaque.argument", call.shown)


def _tar(call: Call, found: Findings) -> None:
    known = line_of(call)
    if call.args and call.args[0].sure and re.fullmatch(r"[A-Za-z]+", call.args[0].text):
        call = msgspec.structs.replace(call, args=_old_style(call.args, known.valued))
    options = sorted_for(call, known)
    by_options(call, known, options, found)
    for word in options.values("--checkpoint-action"):
        run_text(word.part(word.text.rpartition("exec=")[2]), call, found)
    extracts = options.has("-x", "--extract", "--get")
    creates = options.has("-c", "-r", "-u", "-A", "--create", "--append", "--update", "--delete", "--concatenate")
    for word in options.values("-f", "--file"):
        if word.text != "-":
            overwrites(word, call.scope, found) if creates else found.read(call.scope, word)
    directories = options.values("-C", "--directory")
    scope = call.scope
    for word in directories:
        overwrites(word, scope, found) if extracts else found.read(scope, word)
        scope = scope.moved(word)
    if extracts and not directories:
        overwrites(Word("."), call.scope, found)
    if options.has("-P", "--absolute-names", "--transform", "--xform") and extracts:
        found.mark_opaque("opaque.target", call.shown)
    if options.has("--remove-files"):
        found.run((Word("rm"), Word("-r"), *options.operands), scope, ANYTHING)
    if creates:
        found.read(scope, *options.operands)
    elif extracts:
        for word in options.operands:
            overwrites(word, scope, found)


def _old_style(args: tuple[Word, ...], valued: frozenset[str]) -> tuple[Word, ...]:
    """`tar xzf file`: letters first, their values after, in order."""
    made: list[Word] = []
    rest = list(args[1:])
    for letter in args[0].text:
        made.append(Word("-" + letter))
        if "-" + letter in valued and rest:
            made.append(rest.pop(0))
    return (*made, *rest)


def _crontab(call: Call, found: Findings) -> None:
    if not sort_options(call.args, frozenset({"-u"})).has("-l"):
        found.mark_opaque("executes", call.shown)


def _at(call: Call, found: Findings) -> None:
    if call.feed.kind == "text":
        run_text(Word(call.feed.text), call, found)


def _sqlite(call: Call, found: Findings) -> None:
    texts = [word.text for word in call.args] + [call.feed.text]
    if any(_SQLITE_RUNS.search(text) for text in texts):
        found.mark_opaque("interpreter", call.shown)
    if call.feed.kind == "unknown" or any(not word.sure for word in call.args):
        found.mark_opaque("opaque.argument", call.shown)


def _sql(call: Call, found: Findings) -> None:
    texts = [word.text for word in call.args] + [call.feed.text]
    if any(
        re.search(
            r"\\[!|iogw]|\bcopy\b.*\b(program|from|to)\b|\b(system|source|outfile|dumpfile|infile|load_file|pg_read)",
            text,
            re.IGNORECASE | re.DOTALL,
        )
        for text in texts
    ):
        found.mark_opaque("interpreter", call.shown)


def _go(call: Call, found: Findings) -> None:
    if any(re.search(r"-ext(ld|ar)\b|-linkmode", word.text) for word in call.args):
        found.mark_opaque("executes", call.shown)
    if call.args and call.args[0].text == "run" and any("@" in word.text for word in call.args[1:]):
        found.mark_opaque("executes", call.shown)


def _wget(call: Call, found: Findings) -> None:
    """A download to a file is remembered, to recognise it when it is run."""
    options = sorted_for(call, line_of(call))
    given = ("-O", "--output-document") if call.name == "wget" else ("-o", "--output", "--out")
    names = [word.text for word in options.values(*given)]
    if not names and (call.name in {"wget", "aria2c", "axel"} or options.has("-O", "--remote-name")):
        names = [word.text.rstrip("/").rpartition("/")[2].partition("?")[0] for word in options.operands]
        found.write(call.scope, *(Word(name) for name in names if name and "\0" not in name))
    for name in names:
        if name and name != "-":
            found.keep(call.scope, name, Feed("unknown", fetched=True))


def _unzip(call: Call, found: Findings) -> None:
    options = sorted_for(call, line_of(call))
    if not options.has("-d", "-l", "-t", "-p", "-Z", "-v", "-z"):
        overwrites(Word("."), call.scope, found)
    for word in options.operands[1:] if not options.has("-l", "-t", "-p", "-Z", "-v", "-z") else ():
        found.write(call.scope.moved((*options.values("-d"), Word("."))[0]), word)


def _network(call: Call, found: Findings) -> None:
    if any(re.match(r"(?i)(exec|system|shell):", word.text) or re.search(r"(?i)[:,](exec|system|shell):", word.text)
           for word in call.args):  # fmt: skip
        found.mark_opaque("executes", call.shown)
    for match in (re.match(r"(?i)(g?open|create|file):([^,]+)", word.text) for word in call.args):
        if match:
            found.read(call.scope, Word(match[2]))
            found.write(call.scope, Word(match[2]))
    options = sort_options(call.args, frozenset({"-p", "-w", "-s", "-i", "-q", "-X", "-x"}))
    if call.name != "socat" and options.has("-e", "-c", "--exec", "--sh-exec", "--lua-exec"):
        found.mark_opaque("executes", call.shown)
    if (
        options.has("-l", "--listen", "-k") or any("listen" in word.text.lower() for word in call.args)
    ) and not call.scope.timed:
        found.mark_opaque("unbounded", call.shown)


def _remote(call: Call, found: Findings) -> None:
    """ssh: it runs elsewhere, but a destructive command is destructive there too."""
    operands = sort_options(call.args, line_of(call).valued, permute=False).operands
    if len(operands) > 1:
        text = Word(" ".join(word.text for word in operands[1:]), loose=any(word.loose for word in operands))
        run_text(text, call, found)


def _cmake(call: Call, found: Findings) -> None:
    """`cmake -E`: everyday commands under other names."""
    if len(call.args) > 1 and call.args[0].text == "-E":
        verb, rest = call.args[1].text, call.args[2:]
        same = [Word(each) for each in _CMAKE_VERBS.get(verb, "").split()]
        if same:
            found.run((*same, *rest), call.scope, call.feed)


def _ninja(call: Call, found: Findings) -> None:
    options = sorted_for(call, line_of(call))
    files = options.values("-f")
    if any(word.text in {"-", "/dev/stdin"} for word in files):
        found.mark_opaque("executes", call.shown)
    scope = call.scope
    for word in options.values("-C"):
        scope = scope.moved(word)
    found.find(scope, *(word.path for word in files or (Word("build.ninja"),)))


def _package(call: Call, found: Findings) -> None:
    """npm and similar programs run what package.json says."""
    options = sorted_for(call, line_of(call))
    scope = call.scope
    for word in options.values("-C", "--prefix", "--dir", "--cwd"):
        scope = scope.moved(word)
    found.find(scope, "package.json")


def _deno(call: Call, found: Findings) -> None:
    if any("://" in word.text for word in call.args):
        found.block("download-run", call.shown)


_SPECIAL: dict[str, Callable[[Call, Findings], None]] = {
    "make": _make, "gmake": _make, "tar": _tar, "bsdtar": _tar, "gtar": _tar, "crontab": _crontab, "at": _at,
    "batch": _at, "unzip": _unzip,
    "sqlite3": _sqlite, "psql": _sql, "mysql": _sql, "mariadb": _sql, "go": _go,
    "cmake": _cmake, "ninja": _ninja,
    **dict.fromkeys(("wget", "curl", "aria2c", "axel"), _wget),
    **dict.fromkeys(("nc", "ncat", "netcat", "socat"), _network),
    **dict.fromkeys(("npm", "pnpm", "yarn"), _package),
    "ssh": _remote, "deno": _deno,
}  # fmt: skip


def output(call: Call) -> Feed:
    """What a plain program prints, if that is known or at least tame."""
    if call.name in DOWNLOADERS:
        return Feed("unknown", fetched=True)
    if call.name in {"cat", "tee"} and call.feed.kind == "text" and (call.name == "tee" or _from_input(call)):
        return call.feed
    if call.name in {"nproc", "whoami", "id", "uname", "hostname", "uuidgen", "arch", "wc"} and call.name != "wc":
        return Feed("tame")
    if call.name == "date":
        formats = [word.text for word in call.args if word.text.startswith("+")]
        plain = all(word.sure for word in call.args) and all(
            re.fullmatch(r"\+[%\w:.]+[%\w:.-]*", each) for each in formats
        )
        return Feed("tame") if plain and formats and not any("D" in each for each in formats) else ANYTHING
    if call.name == "wc" and (call.feed.kind != "none" or not call.args):
        return Feed("tame") if all(word.text.startswith("-") for word in call.args) else ANYTHING
    return Feed("unknown", fetched=call.feed.fetched)


def _from_input(call: Call) -> bool:
    return all(word.text == "-" for word in call.args)
