"""Commands that never end, need a person, or walk the whole machine."""

import re
from collections.abc import Callable, Sequence

from coilclaw.lib.shell.call import Call, Findings
from coilclaw.lib.shell.options import sort_options
from coilclaw.lib.shell.paths import line_of, sorted_for
from coilclaw.lib.shell.words import Word

_INTERACTIVE = frozenset({
    "vi", "vim", "nvim", "view", "gvim", "nano", "pico", "micro", "hx", "emacs", "less", "more", "most", "htop",
    "btop", "atop", "iotop", "nvtop", "mc", "ranger", "tig", "lazygit", "screen", "tmux", "k9s", "fzf", "cmatrix",
    "visudo", "vipw", "gitk", "telnet", "ftp", "mutt", "irssi",
})  # fmt: skip
_ENDLESS = re.compile(r"/dev/(zero|urandom|random|full|tty)")
_SERVERS = frozenset({
    "nginx", "httpd", "apache2", "sshd", "redis-server", "postgres", "mysqld", "mongod", "caddy", "uvicorn",
    "gunicorn", "http-server", "live-server", "ngrok", "inotifywait", "fswatch", "tor",
})  # fmt: skip
_LONGEST_SLEEP = 3600
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def check(call: Call, found: Findings) -> None:
    """Record a command that may never end, unless something around it ends it."""
    if call.scope.timed:
        return
    checker = _CHECKERS.get(call.name)
    if call.name in _INTERACTIVE or call.name in _SERVERS or (checker is not None and checker(call)) or _endless(call):
        found.mark_opaque("unbounded", call.shown)


def _endless(call: Call) -> bool:
    """Reads a device that never ends, and nothing stops it."""
    if call.scope.bounded or call.name in {"head", "ls", "stat", "test", "[", "file", "chmod", "echo", "printf", "od"}:
        return False
    fed = call.feed.kind == "file" and _ENDLESS.fullmatch(call.feed.text) is not None
    return fed or any(_ENDLESS.fullmatch(word.text) for word in call.args)


def _yes(call: Call) -> bool:
    return not call.scope.bounded and not any(word.text in {"--version", "--help"} for word in call.args)


def _tail(call: Call) -> bool:
    return sorted_for(call, line_of(call)).has("-f", "-F", "--follow", "--retry")


def _sleep(call: Call) -> bool:
    total = 0.0
    for word in call.args:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", word.text)
        if match:
            total += float(match[1]) * _UNITS[match[2] or "s"]
        elif word.text.lower() in {"infinity", "inf"}:
            return True
    return total > _LONGEST_SLEEP


def _ping(call: Call) -> bool:
    valued = frozenset({"-c", "-w", "-i", "-I", "-s", "-W", "-t", "--count", "--deadline"})
    return not sort_options(call.args, valued).has("-c", "-w", "--count", "--deadline")


def _top(call: Call) -> bool:
    options = sort_options(call.args, frozenset({"-n", "-d", "-p", "-u", "-l"}))
    return not ((options.has("-b") and options.has("-n")) or options.has("-l"))


def _journalctl(call: Call) -> bool:
    valued = frozenset({"-u", "-n", "-p", "-o", "--unit", "--lines", "--since", "--until"})
    return sort_options(call.args, valued).has("-f", "--follow")


def _whole_machine(words: Sequence[Word]) -> bool:
    return any(re.fullmatch(r"/+(\.?/*)*\*?", word.text) for word in words)


def _find(call: Call) -> bool:
    roots: list[Word] = []
    for word in call.args:
        if word.text[:1] in {"-", "(", "!"} and word.text not in {"-H", "-L", "-P"}:
            break
        roots.append(word)
    return _whole_machine(roots) and not any(word.text in {"-maxdepth", "-prune", "-quit"} for word in call.args)


def _grep(call: Call) -> bool:
    recursive = ("-r", "-R", "--recursive", "--dereference-recursive")
    return sorted_for(call, line_of(call)).has(*recursive) and _search(call)


def _search(call: Call) -> bool:
    known = line_of(call)
    options = sorted_for(call, known)
    return _whole_machine(options.operands[0 if options.has(*known.instead) else known.skip :])


def _ls(call: Call) -> bool:
    options = sort_options(call.args)
    return options.has("-R", "--recursive") and _whole_machine(options.operands)


def _walk(call: Call) -> bool:
    options = sorted_for(call, line_of(call))
    bounded = call.name == "tree" and options.has("-L")
    return _whole_machine(options.operands) and not bounded


def _flask(call: Call) -> bool:
    return any(word.text in {"run", "runserver", "serve", "start-server"} for word in call.args)


def _follow(call: Call) -> bool:
    verb = call.args[0].text if call.args else ""
    follow = sort_options(call.args, frozenset({"-n", "--tail", "--since"})).has("-f", "--follow", "-w", "--watch")
    return verb in {"logs", "get", "events", "attach", "port-forward", "proxy"} and (
        follow or verb in {"attach", "port-forward"}
    )


_CHECKERS: dict[str, Callable[[Call], bool]] = {
    "yes": _yes, "tail": _tail, "sleep": _sleep, "ping": _ping, "ping6": _ping, "top": _top, "journalctl": _journalctl,
    "dmesg": _tail, "find": _find, "grep": _grep, "egrep": _grep, "fgrep": _grep, "rg": _search, "ag": _search,
    "ack": _search, "fd": _search, "ls": _ls, "du": _walk, "tree": _walk, "ncdu": _walk, "flask": _flask,
    "docker": _follow, "podman": _follow, "kubectl": _follow,
}  # fmt: skip
