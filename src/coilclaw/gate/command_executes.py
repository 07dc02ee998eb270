"""Programs that fetch code and run it, or execute something by a subcommand, an option or their input."""

import re
from collections.abc import Callable

from coilclaw.gate.command_call import ANYTHING, Call, Feed, Findings, matches, sort_options
from coilclaw.gate.command_patterns import overwrites
from coilclaw.gate.command_shells import run_text, written
from coilclaw.gate.command_words import Word

DOWNLOADERS = frozenset({
    "curl", "wget", "fetch", "aria2c", "http", "https", "xh", "lynx", "w3m", "links", "elinks", "nc", "ncat",
    "netcat", "socat", "lwp-request", "GET", "axel", "ftp", "tftp", "ssh", "scp", "sftp", "gsutil", "s3cmd",
    "rclone", "youtube-dl", "telnet",
})  # fmt: skip
_ALWAYS = frozenset({
    "npx", "uvx", "bunx", "pnpx", "at", "batch", "systemd-run", "xdg-open", "open", "gio", "docker-compose",
    "podman-compose", "vagrant", "ansible", "ansible-playbook", "salt", "run-parts", "watchexec", "nodemon", "entr",
    "incron", "dpkg", "rpm", "installer", "easy_install", "sdkmanager", "xdotool", "gnome-terminal", "xterm",
    "sensible-browser", "insmod", "modprobe", "mount", "umount", "iptables", "nft", "sysctl", "visudo", "useradd",
    "usermod", "passwd", "chpasswd", "setcap",
})  # fmt: skip
_SUBCOMMANDS: dict[str, frozenset[str]] = {
    name: frozenset(verbs.split())
    for name, verbs in {
        "pip": "install download wheel",
        "pip3": "install download wheel",
        "pipx": "run install upgrade inject runpip reinstall",
        "npm": "install i ci add exec x create init update rebuild link publish install-test it isntall",
        "pnpm": "install i add dlx exec create update up rebuild",
        "yarn": "install add dlx exec create up upgrade global",
        "bun": "install i add x create update exec eval",
        "deno": "eval install run-remote repl",
        "uv": "add sync tool pip lock python build publish",
        "poetry": "install add update self build publish shell",
        "pipenv": "install sync update shell",
        "pdm": "install add sync update",
        "gem": "install update exec",
        "bundle": "install update add",
        "cargo": "install publish binstall",
        "go": "generate install get",
        "brew": "install upgrade reinstall tap",
        "apt": "install upgrade full-upgrade dist-upgrade remove purge",
        "apt-get": "install upgrade dist-upgrade remove purge build-dep",
        "dnf": "install upgrade remove",
        "yum": "install update remove",
        "apk": "add del upgrade",
        "pacman": "-S -U -R -Syu -Sy",
        "snap": "install refresh run",
        "flatpak": "install run",
        "conda": "install create update run env",
        "mamba": "install create update run",
        "composer": "install require update create-project exec",
        "nix": "run shell develop",
        "docker": "run exec build compose cp load import start restart commit create buildx",
        "podman": "run exec build compose cp load import start restart commit create",
        "kubectl": "exec run apply delete create edit cp",
        "helm": "install upgrade uninstall",
        "terraform": "apply destroy import",
        "systemctl": "start restart enable link edit set-environment import-environment daemon-reload",
        "service": "start restart",
        "code": "--install-extension",
        "mvn": "exec:exec exec:java",
        "launchctl": "load submit start bootstrap",
        "tmux": "new new-session send-keys run-shell",
        "gh": "extension alias codespace",
        "direnv": "allow exec",
        "rustup": "install update run default toolchain",
        "nvm": "install exec run",
        "asdf": "install exec plugin",
        "mise": "install exec run",
    }.items()
}
_TAR_RUNS = ("--to-command", "--checkpoint-action", "--use-compress-program", "--rsh-command", "--rmt-command",
             "--info-script", "--new-volume-script")  # fmt: skip
_TAR_VALUED = frozenset({
    "-f", "-C", "-T", "-X", "-b", "-I", "-F", "-K", "-N", "-V", "-g", "-L", "-H", "--file", "--directory",
    "--files-from", "--exclude", "--exclude-from", "--transform", "--xform", "--owner", "--group", "--mode",
    "--strip-components", "--to-command", "--checkpoint-action", "--use-compress-program", "--rsh-command",
    "--listed-incremental",
})  # fmt: skip


_MAKEFILES = ("Makefile", "makefile", "GNUmakefile")
_MAKE_RUNS = frozenset({"SHELL", ".SHELLFLAGS", "MAKEFLAGS", "MAKE"})
_SQLITE_RUNS = re.compile(
    r"^\s*\.(sh|sy|loa|once\s*\||out\w*\s*\||import\s.*\||read\s*\|)|load_extension|edit\s*\(", re.MULTILINE
)


def execute(call: Call, found: Findings) -> None:
    """Note whatever makes this program run something else."""
    name = call.name
    if name in _ALWAYS:
        found.cloud("executes", call.shown)
    verbs = _SUBCOMMANDS.get(name)
    if verbs is not None:
        _subcommand(call, verbs, found)
    special = _SPECIAL.get(name)
    if special is not None:
        special(call, found)


def _subcommand(call: Call, verbs: frozenset[str], found: Findings) -> None:
    if not call.args and call.name == "yarn":
        found.cloud("executes", call.shown)
    for word in call.args:
        if word.optional:
            found.cloud("opaque.argument", call.shown)
        if word.text in verbs:
            found.cloud("executes", call.shown)
        if not word.text.startswith("-"):
            break


def _make(call: Call, found: Findings) -> None:
    valued = frozenset({"-f", "-C", "-I", "-o", "-W", "-E", "--file", "--makefile", "--directory", "--eval", "--jobs"})
    options = sort_options(call.args, valued)
    files = options.values("-f", "--file", "--makefile")
    if options.has("--eval", "-E") or any(word.text in {"-", "/dev/stdin"} for word in files):
        found.cloud("executes", call.shown)
    if any(written(name, call.scope, found) for name in (*(word.text for word in files), *_MAKEFILES)):
        found.cloud("opaque.written", call.shown)
    for word in options.operands:
        name, equals, value = word.text.partition("=")
        if word.optional:
            found.cloud("opaque.argument", call.shown)
        elif equals and (name.strip(":+?") in _MAKE_RUNS or re.search(r"\$\(|`|\$\{|!", value)):
            found.cloud("executes", call.shown)
    if any(word.loose for word in (*files, *options.values("-C", "--directory"))):
        found.cloud("opaque.argument", call.shown)
    found.read(call.scope, *options.values("-C", "--directory"), *files)


def _tar(call: Call, found: Findings) -> None:
    args = call.args
    if args and args[0].sure and re.fullmatch(r"[A-Za-z]+", args[0].text):
        args = _old_style(args)
    options = sort_options(args, _TAR_VALUED)
    for flag, value in options.flags:
        if flag in {"-I", "-F"} or matches(flag, _TAR_RUNS):
            found.cloud("executes", call.shown)
            if value is not None and value.sure:
                run_text(Word(value.text.rpartition("exec=")[2]), call, found)
    extracts, creates = (
        options.has("-x", "--extract", "--get"),
        options.has("-c", "-r", "-u", "--create", "--append", "--update"),
    )
    archives = options.values("-f", "--file")
    for word in archives:
        if word.text != "-":
            overwrites(word, call.scope, found) if creates else found.read(call.scope, word)
    directories = options.values("-C", "--directory")
    for word in directories:
        overwrites(word, call.scope, found) if extracts else found.read(call.scope, word)
    if extracts and not directories:
        overwrites(Word("."), call.scope, found)
    if options.has("-P", "--absolute-names") and extracts:
        found.cloud("opaque.target", call.shown)
    if creates:
        found.read(call.scope, *options.operands)


def _old_style(args: tuple[Word, ...]) -> tuple[Word, ...]:
    """`tar xzf file`: letters first, their values after, in order."""
    made: list[Word] = []
    rest = list(args[1:])
    for letter in args[0].text:
        made.append(Word("-" + letter))
        if "-" + letter in _TAR_VALUED and rest:
            made.append(rest.pop(0))
    return (*made, *rest)


def _crontab(call: Call, found: Findings) -> None:
    if not sort_options(call.args, frozenset({"-u"})).has("-l"):
        found.cloud("executes", call.shown)


def _at(call: Call, found: Findings) -> None:
    if call.feed.kind == "text":
        run_text(Word(call.feed.text), call, found)


def _sqlite(call: Call, found: Findings) -> None:
    texts = [word.text for word in call.args] + [call.feed.text]
    if any(_SQLITE_RUNS.search(text) for text in texts):
        found.cloud("interpreter", call.shown)
    if call.feed.kind == "unknown" or any(not word.sure for word in call.args):
        found.cloud("opaque.argument", call.shown)


def _sql(call: Call, found: Findings) -> None:
    texts = [word.text for word in call.args] + [call.feed.text]
    if any(
        re.search(r"\\!|\\copy\b.*\bprogram\b|\bcopy\b.*\bprogram\b|\bsystem\b|\\\|", text, re.IGNORECASE | re.DOTALL)
        for text in texts
    ):
        found.cloud("interpreter", call.shown)


def _editor(call: Call, found: Findings) -> None:
    if any(re.match(r"-(c|S|s|es|Es|e|u|w|W)|--cmd|\+", word.text) for word in call.args):
        found.cloud("interpreter", call.shown)


def _less(call: Call, found: Findings) -> None:
    if any(word.text.startswith("+") for word in call.args):
        found.cloud("executes", call.shown)


def _go(call: Call, found: Findings) -> None:
    if any(re.match(r"--?(exec|toolexec|vettool|overlay)\b", word.text) for word in call.args):
        found.cloud("executes", call.shown)
    if call.args and call.args[0].text == "run" and any("@" in word.text for word in call.args[1:]):
        found.cloud("executes", call.shown)


def _wget(call: Call, found: Findings) -> None:
    """A download to a file is remembered, so that running that file is known for what it is."""
    to_file = "-o" if call.name == "curl" else "-O"
    valued = {to_file, "--output-document", "--output", "-P", "-H", "-X", "-d", "-u", "-A", "-e", "-b", "-m"}
    options = sort_options(call.args, frozenset(valued))
    names = [word.text for word in options.values(to_file, "--output-document", "--output")]
    if not names and (call.name in {"wget", "aria2c", "axel"} or options.has("-O", "--remote-name")):
        names = [word.text.rstrip("/").rpartition("/")[2].partition("?")[0] for word in options.operands]
        found.write(call.scope, *(Word(name) for name in names if name and "\0" not in name))
    for name in names:
        if name and name != "-":
            found.keep(call.scope, name, Feed("unknown", fetched=True))


def _unzip(call: Call, found: Findings) -> None:
    options = sort_options(call.args, frozenset({"-d", "-x", "-P"}))
    if not options.has("-d", "-l", "-t", "-p", "-Z", "-v", "-z"):
        overwrites(Word("."), call.scope, found)


def _network(call: Call, found: Findings) -> None:
    if any(re.match(r"(?i)(exec|system|shell):", word.text) or re.search(r"(?i)[:,](exec|system|shell):", word.text)
           for word in call.args):  # fmt: skip
        found.cloud("executes", call.shown)
    options = sort_options(call.args, frozenset({"-p", "-w", "-s", "-i", "-q", "-X", "-x"}))
    if call.name != "socat" and options.has("-e", "-c", "--exec", "--sh-exec", "--lua-exec"):
        found.cloud("executes", call.shown)
    if (
        options.has("-l", "--listen", "-k") or any("listen" in word.text.lower() for word in call.args)
    ) and not call.scope.timed:
        found.cloud("unbounded", call.shown)


def _remote(call: Call, found: Findings) -> None:
    """ssh: what it runs is run elsewhere, but a destructive line is one there too."""
    valued = frozenset(
        [
            "-b",
            "-c",
            "-D",
            "-E",
            "-e",
            "-F",
            "-I",
            "-i",
            "-J",
            "-L",
            "-l",
            "-m",
            "-O",
            "-o",
            "-p",
            "-Q",
            "-R",
            "-S",
            "-W",
            "-w",
        ]
    )
    operands = sort_options(call.args, valued, permute=False).operands
    if len(operands) > 1:
        text = Word(" ".join(word.text for word in operands[1:]), loose=any(word.loose for word in operands))
        run_text(text, call, found)


def _deno(call: Call, found: Findings) -> None:
    if any("://" in word.text for word in call.args):
        found.block("download-run", call.shown)


_SPECIAL: dict[str, Callable[[Call, Findings], None]] = {
    "make": _make, "gmake": _make, "tar": _tar, "bsdtar": _tar, "gtar": _tar, "crontab": _crontab, "at": _at,
    "batch": _at, "unzip": _unzip,
    "sqlite3": _sqlite, "psql": _sql, "mysql": _sql, "mariadb": _sql, "go": _go, "less": _less, "more": _less,
    **dict.fromkeys(("vi", "vim", "nvim", "view", "gvim", "nano", "pico", "micro", "hx"), _editor),
    **dict.fromkeys(("wget", "curl", "aria2c", "axel"), _wget),
    **dict.fromkeys(("nc", "ncat", "netcat", "socat"), _network),
    "ssh": _remote, "deno": _deno,
}  # fmt: skip


def output(call: Call) -> Feed:
    """What a plain program prints, where that is known or at least tame."""
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
