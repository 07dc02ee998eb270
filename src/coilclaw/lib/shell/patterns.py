"""Destructive patterns in parsed arguments: which location a path names, and what would be done to it."""

import posixpath
import re
from collections.abc import Callable, Sequence

from coilclaw.lib.shell.call import Call, Feed, Findings, Scope
from coilclaw.lib.shell.options import Options, sort_options
from coilclaw.lib.shell.programs import program
from coilclaw.lib.shell.words import TAME, Word

_SYSTEM = frozenset({
    "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "sys", "usr", "System",
    "Library", "Applications",
})  # fmt: skip
_HOMES = frozenset({"home", "Users"})
_SCRATCH = frozenset({"tmp"})
_ALL = re.compile(r"[.?*]*\*[.?*]*|\.?\[[!^].\]\*|\.\?\??\*?|\?+\*?")
_DEVICE = re.compile(
    r"/dev/(sd|hd|vd|xvd|nvme|mmcblk|loop|dm-|md|ram|sr|nbd|disk|mapper|block|fd\d|mtd|mem$|kmem|port|zd|rdisk|[*?\[])"
)
_HARMLESS_DEVICE = re.compile(
    r"/dev/(null|zero|full|random|urandom|tty|stdin|stdout|stderr|ptmx|console)|/dev/(fd|pts|shm)/.*|/proc/(self|\d+)/fd/.*"
)
_POWER = frozenset({"shutdown", "reboot", "halt", "poweroff", "telinit"})
_POWER_VERBS = frozenset({
    "poweroff", "reboot", "halt", "kexec", "soft-reboot", "suspend", "hibernate", "emergency", "rescue", "isolate",
    "exit",
})  # fmt: skip
_FILESYSTEM = frozenset({"mke2fs", "mkdosfs", "mkswap", "newfs", "mkntfs", "mkexfatfs", "mkudffs"})
_WIPERS = frozenset({
    "wipefs", "shred", "blkdiscard", "fdisk", "sfdisk", "cfdisk", "gdisk", "sgdisk", "parted", "badblocks",
    "hdparm", "nvme", "cryptsetup", "pvcreate", "vgremove", "lvremove", "mdadm", "scrub", "srm",
})  # fmt: skip


def place(path: str) -> str:
    """Which dangerous location a path names: `root`, `system`, `home`, `all` (everything here), or none."""
    path = path.replace(TAME, "x")
    if path.startswith("~"):
        inside = _parts(path.partition("/")[2])
        return "home" if not inside or (len(inside) == 1 and _ALL.fullmatch(inside[0])) else ""
    if path.startswith("/"):
        return _absolute(_parts(path))
    relative = posixpath.normpath(path).split("/")
    while relative and relative[0] == "..":
        relative = relative[1:]
    everything = all(part == "." or _ALL.fullmatch(part) for part in relative)
    return "all" if path and everything else ""


def _parts(path: str) -> list[str]:
    return [part for part in posixpath.normpath("/" + path).split("/") if part]


def _absolute(parts: list[str]) -> str:
    if not parts or any(c in parts[0] for c in "*?["):
        return "root"
    top = parts[0]
    if len(parts) == 1:
        return "system" if top in _SYSTEM else "root"
    if top in _SYSTEM:
        spared = parts[:2] == ["dev", "shm"] or (parts[:2] == ["usr", "local"] and len(parts) > 2)
        return "" if spared else "system"
    if top in _HOMES and (len(parts) == 2 or (len(parts) == 3 and _ALL.fullmatch(parts[2]))):
        return "home"
    return "root" if top not in _SCRATCH and len(parts) == 2 and _ALL.fullmatch(parts[1]) else ""


def places(word: Word, scope: Scope) -> set[str]:
    """Every dangerous location a word may name, from every possible directory."""
    if not word.sure:
        return set()
    found = {place(path) for path in scope.paths(word.text)}
    return set() if not word.glob and _has_pattern(word) else found - {""}


def _has_pattern(word: Word) -> bool:
    return any(c in word.text for c in "*?[")


def overwrites(word: Word, scope: Scope, found: Findings) -> None:
    """Record a path that would be written, and writes to block devices and system files."""
    for path in scope.paths(word.path) if word.sure else ():
        clean = "/" + "/".join(_parts(path)) if path.startswith("/") else path
        if _HARMLESS_DEVICE.fullmatch(clean):
            return
        if clean.startswith(("/dev/tcp/", "/dev/udp/")):
            found.mark_opaque("opaque.network", word.shown)
        elif _DEVICE.match(clean):
            found.block("device", word.shown)
        elif clean.startswith("/") and place(clean) == "system":
            found.block("system-file", word.shown)
    found.write(scope, word)


def check(call: Call, found: Findings) -> None:
    """Look for the destructive patterns of one program."""
    name = call.name
    if name.startswith("mkfs") or name in _FILESYSTEM:
        found.block("filesystem", call.shown)
    elif name in _POWER:
        found.block("power", call.shown)
    elif name in _WIPERS:
        _wiper(call, found)
    else:
        checker = _CHECKERS.get(name)
        if checker is not None:
            checker(call, found)


def _recursive(options: Options) -> bool:
    return options.has("-r", "-R", "--recursive") or any(word.optional for word in options.operands)


def _rm(call: Call, found: Findings) -> None:
    options = sort_options(call.args)
    recursive = _recursive(options)
    for word in options.operands:
        where = places(word, call.scope)
        if recursive and where & {"root", "system", "home"}:
            found.block("remove-root", call.shown)
        elif recursive and "all" in where:
            found.block("remove-all", call.shown)
        elif where & {"root", "system"}:
            found.block("system-file", call.shown)


def _renamed(sources: Sequence[Word], target: Word, call: Call, found: Findings) -> None:
    """A copy of a program under another name is remembered, to recognise it when it is run."""
    if any("/bin/" in word.text or "/sbin/" in word.text for word in sources) and target.sure:
        found.keep(call.scope, target.path, Feed("unknown"))


def _cp(call: Call, found: Findings) -> None:
    sources, target = _from_to(call)
    if target is not None:
        _renamed(sources, target, call, found)


def _from_to(call: Call) -> tuple[Sequence[Word], Word | None]:
    """The sources and target of a copy."""
    known = program(call.name)
    options = sort_options(call.args, known.valued if known else frozenset())
    into = options.values("-t", "--target-directory")
    if into or len(options.operands) < 2:
        return options.operands, into[0] if into else None
    return options.operands[:-1], options.operands[-1]


def _mv(call: Call, found: Findings) -> None:
    sources, target = _from_to(call)
    away = target is None or not target.literal or target.text.startswith(("/", "~", ".."))
    for word in sources:
        if places(word, call.scope) & {"root", "system", "home"}:
            found.block("system-file", call.shown)
        elif word.sure and place(call.scope.paths(word.text)[0]) == "all" and (word.glob or not _has_pattern(word)):
            found.block("remove-all", call.shown) if away else found.mark_opaque("opaque.glob", call.shown)
    _cp(call, found)


def _rsync(call: Call, found: Findings) -> None:
    known = program(call.name)
    options = sort_options(call.args, known.valued if known else frozenset())
    touched = options.operands[-1:] if any(flag.startswith("--del") for flag, _ in options.flags) else ()
    if options.has("--remove-source-files", "--remove-sent-files"):
        touched += options.operands[:-1]
    for word in touched:
        where = places(word, call.scope)
        if where:
            found.block("remove-all" if where == {"all"} else "remove-root", call.shown)


def _pack(call: Call, found: Findings) -> None:
    """Archivers that remove their inputs."""
    options = sort_options(call.args, frozenset({"-x", "-i", "-P", "-b"}))
    moves = options.has("-m", "--move") if call.name == "zip" else any(word.text == "-sdel" for word in call.args)
    if moves and any("all" in places(word, call.scope) for word in options.operands[1:]):
        found.block("remove-all", call.shown)


def _chmod(call: Call, found: Findings) -> None:
    options = sort_options(call.args)
    for word in options.operands:
        if _recursive(options) and places(word, call.scope) & {"root", "system", "home"}:
            found.block("permissions", call.shown)


def _chown(call: Call, found: Findings) -> None:
    if sort_options(call.args, frozenset({"--from", "--reference"})).has("-R", "--recursive"):
        found.block("ownership", call.shown)


def _dd(call: Call, found: Findings) -> None:
    for word in call.args:
        if word.text.startswith("if="):
            found.block("dd", call.shown)
            found.read(call.scope, word.part(word.text[3:]))
        elif word.text.startswith("of="):
            overwrites(word.part(word.text[3:]), call.scope, found)
        elif not word.sure:
            found.mark_opaque("opaque.target", word.shown)


def _wiper(call: Call, found: Findings) -> None:
    for word in call.args:
        if word.sure and _DEVICE.match(word.text):
            found.block("device", call.shown)
    _emptied(call, found)


def _emptied(call: Call, found: Findings) -> None:
    if any("all" in places(word, call.scope) for word in call.args if word.glob):
        found.block("remove-all", call.shown)


def _kill(call: Call, found: Findings) -> None:
    args = list(call.args)
    if args and args[0].text in {"-s", "-n", "--signal"}:
        args = args[2:]
    elif args and args[0].text.startswith("-") and args[0].text != "--" and len(args) > 1:
        args = args[1:]
    for word in args:
        if word.text == "-1":
            found.block("kill-all", call.shown)
        elif not word.literal:
            found.mark_opaque("opaque.target", word.shown)


def _killall(call: Call, found: Findings) -> None:
    found.block("kill-all", call.shown)


def _pkill(call: Call, found: Findings) -> None:
    patterns = sort_options(call.args, frozenset({"-u", "-g", "-P", "-s", "-t", "--signal"})).operands
    if any(word.text in {"", ".", ".*", "^", "$"} for word in patterns):
        found.block("kill-all", call.shown)


def _init(call: Call, found: Findings) -> None:
    if call.args and call.args[0].text in {"0", "6", "1", "s", "S"}:
        found.block("power", call.shown)


def _systemctl(call: Call, found: Findings) -> None:
    verbs = sort_options(call.args, frozenset({"-H", "-M", "-t", "-p"})).operands
    if verbs and verbs[0].text in _POWER_VERBS:
        found.block("power", call.shown)
    if (
        verbs
        and verbs[0].text == "start"
        and any(re.match(r"(poweroff|reboot|halt)\.", word.text) for word in verbs[1:])
    ):
        found.block("power", call.shown)


_CHECKERS: dict[str, Callable[[Call, Findings], None]] = {
    "rm": _rm,
    "mv": _mv,
    "cp": _cp,
    "ln": _cp,
    "install": _cp,
    "rsync": _rsync,
    "zip": _pack,
    "7z": _pack,
    "truncate": _emptied,
    "chmod": _chmod,
    "chown": _chown,
    "chgrp": _chown,
    "dd": _dd,
    "kill": _kill,
    "killall5": _killall,
    "pkill": _pkill,
    "init": _init,
    "systemctl": _systemctl,
    "loginctl": _systemctl,
}

DESTRUCTIVE = _POWER | _FILESYSTEM | _WIPERS | frozenset(_CHECKERS) | {"mkfs"}
"""Names that some pattern here covers."""
