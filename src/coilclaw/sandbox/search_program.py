"""Searches the files below a folder, as a program: a query on standard input, results on standard output.

It runs as a child process with hard limits, because the regular expression is a model's and the files are anybody's:
if it hangs or grows it is killed, and its parent continues. No link is followed, nothing is written.
"""

import hashlib
import json
import os
import re
import signal
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

    from coilclaw.sandbox.ignore_rules import Glob, IgnoreRules

CPU_SECONDS = 30
MEMORY_BYTES = 1 << 30
FILE_SECONDS = 1.0
"""How long the expression may take for one file."""
SLOW_FILES = 3
"""The search ends after this many files took too long."""
FILE_BYTES = 16 << 20
IGNORE_BYTES = 64 << 10
DEEPEST = 100
SHOWN = 300
"""Maximum characters of a line."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LimitReached(Exception):
    """A limit is reached; the search ends with what was found."""


class TooSlow(Exception):
    """The expression took too long."""


def main() -> None:
    """Read argv (the open folder, our package's path) and standard input; write one line per result."""
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    top = int(sys.argv[1])
    sys.path.append(sys.argv[2])
    signal.signal(signal.SIGALRM, _is_slow)
    search = Search(top, json.loads(sys.stdin.buffer.read()))
    try:
        search.run()
    except LimitReached as over:
        _tell({"over": str(over)})
    except OSError as error:
        _tell({"fault": error.strerror or "it cannot be read"})
    except re.error as error:
        _tell({"invalid": str(error)})
    except (RecursionError, OverflowError, MemoryError, TooSlow):
        _tell({"invalid": "it is too large"})
    _tell({"done": search.counts})


def _is_slow(_signal: int, _frame: "FrameType | None") -> None:
    raise TooSlow


def _tell(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raise TooSlow if it takes longer; the regex engine checks for signals."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Search:
    """One search."""

    def __init__(self, top: int, query: dict[str, Any]) -> None:
        self.top = top
        self.query = query
        self.counts = {"files": 0, "binary": 0, "large": 0, "slow": 0, "hidden": 0, "matches": 0}
        self._until = time.monotonic() + query["seconds"]
        self._bytes = query["bytes"]
        self._below = 0
        """Start of the path relative to the searched folder."""
        self._expression: re.Pattern[str] | None = None
        self._glob: Glob | None = None

    def run(self) -> None:
        """Find everything within the limits."""
        from coilclaw.sandbox.ignore_rules import Glob

        if self.query["pattern"]:
            with _within(FILE_SECONDS):
                self._expression = re.compile(self.query["pattern"], re.IGNORECASE if self.query["ignore_case"] else 0)
        if self.query["glob"]:
            self._glob = Glob(self.query["glob"])
        if hides(self.query["hidden"], self.query["path"]):
            self.counts["hidden"] += 1
            return
        start, here = "", os.dup(self.top)
        rules: list[tuple[str, IgnoreRules]] = []
        *folders, last = self.query["path"].split("/") if self.query["path"] else [""]
        for name in folders:
            rules += self._rules(here, start)
            below = os.open(name, _FOLDER, dir_fd=here)
            os.close(here)
            here, start = below, _join(start, name)
        if last:
            rules += self._rules(here, start)
            self._below = len(start) + 1 if start else 0
            start = _join(start, last)
            if stat.S_ISREG(os.stat(last, dir_fd=here, follow_symlinks=False).st_mode):
                self._file(here, start, last)
                return
            here = os.open(last, _FOLDER, dir_fd=here)
        self._below = len(start) + 1 if start else 0
        self._folder(here, start, rules, 0)

    def _folder(self, here: int, path: str, rules: "list[tuple[str, IgnoreRules]]", depth: int) -> None:
        with os.scandir(here) as found:
            entries = sorted((entry.name, entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False))
                             for entry in found)  # fmt: skip
        rules = [*rules, *self._rules(here, path)]
        folders: list[tuple[str, str]] = []
        for name, is_folder, is_file in entries:
            if not (is_folder or is_file):
                continue
            whole = _join(path, name)
            if self._is_left_out(whole, name, rules, is_folder=is_folder):
                continue
            if is_file:
                self._file(here, whole, name)
            elif depth < DEEPEST:
                folders.append((name, whole))
        for name, whole in folders:
            with suppress(OSError):  # it is gone, inaccessible, or a link by now
                below = os.open(name, _FOLDER, dir_fd=here)
                try:
                    self._folder(below, whole, rules, depth + 1)
                finally:
                    os.close(below)

    def _is_left_out(self, path: str, name: str, rules: "list[tuple[str, IgnoreRules]]", *, is_folder: bool) -> bool:
        if name.casefold() == ".git":
            return True
        if hides(self.query["hidden"], path):
            self.counts["hidden"] += 1
            return True
        if self.query["ignored"]:
            return False
        for base, each in reversed(rules):
            says = each.says(path[len(base) + 1 :] if base else path, is_folder=is_folder)
            if says is not None:
                return says
        return False

    def _rules(self, here: int, path: str) -> "list[tuple[str, IgnoreRules]]":
        """The ignore files of a folder; the last one takes precedence."""
        from coilclaw.sandbox.ignore_rules import IgnoreRules

        found: list[tuple[str, IgnoreRules]] = []
        for name in () if self.query["ignored"] else (".gitignore", ".ignore"):
            with suppress(OSError):
                data = _read(here, name, IGNORE_BYTES)
                if data is not None:
                    found.append((path, IgnoreRules(data.decode("utf-8", "replace"))))
        return found

    def _file(self, here: int, path: str, name: str) -> None:
        self.counts["files"] += 1
        if self.counts["files"] > self.query["files"]:
            raise LimitReached(f"after {self.query['files']} files")
        if time.monotonic() > self._until:
            raise LimitReached(f"after {self.query['seconds']:g} seconds")
        if self._glob is not None and not self._glob.matches(path[self._below :]):
            return
        if self._expression is None:
            size = os.stat(name, dir_fd=here, follow_symlinks=False).st_size
            self._found({"file": path, "sha256": "", "size": size, "lines": []}, 1)
            return
        try:
            data = _read(here, name, FILE_BYTES)
        except OSError:
            return
        if data is None:
            self.counts["large"] += 1
            return
        if b"\0" in data[:8192]:
            self.counts["binary"] += 1
            return
        self._bytes -= len(data)
        if self._bytes < 0:
            raise LimitReached(f"after {self.query['bytes'] >> 20} MB")
        self._match(path, data)

    def _match(self, path: str, data: bytes) -> None:
        assert self._expression is not None  # noqa: S101 - the caller looked
        lines = data.decode("utf-8", "replace").split("\n")
        if lines and not lines[-1]:
            lines.pop()
        left = self.query["matches"] - self.counts["matches"]
        most = 1 if self.query["files_only"] else left
        hits: list[tuple[int, int]] = []
        try:
            with _within(FILE_SECONDS):
                for number, line in enumerate(lines):
                    hit = self._expression.search(line)
                    if hit is not None:
                        hits.append((number, hit.start()))
                        if len(hits) >= most:
                            break
        except TooSlow:
            self.counts["slow"] += 1
            if self.counts["slow"] >= SLOW_FILES:
                raise LimitReached(f"because the expression took too long for {SLOW_FILES} files") from None
        if hits:
            shown = [] if self.query["files_only"] else _shown(lines, hits, self.query["context"])
            digest = hashlib.sha256(data).hexdigest()
            self._found({"file": path, "sha256": digest, "size": len(data), "lines": shown}, len(hits))

    def _found(self, what: dict[str, Any], count: int) -> None:
        _tell(what)
        self.counts["matches"] += count
        if self.counts["matches"] >= self.query["matches"]:
            raise LimitReached(f"after {self.counts['matches']} matches")


def hides(hidden: list[str], path: str) -> bool:
    """Whether one of these hides a path: the path itself, `folder/**`, or `**/name`."""
    name = path.rpartition("/")[2]
    for each in hidden:
        folder = each[:-3].rstrip("/") if each.endswith("/**") else None
        if each == path or (each.startswith("**/") and each[3:] == name):
            return True
        if folder is not None and (path == folder or path.startswith(f"{folder}/")):
            return True
    return False


def _shown(lines: list[str], hits: list[tuple[int, int]], context: int) -> list[tuple[int, bool, str]]:
    """Each line to show: its number, whether it matches, and its text."""
    places = dict(hits)
    around = {near for number in places for near in range(number - context, number + context + 1)}
    return [
        (number + 1, number in places, _cut(lines[number], places.get(number, 0)))
        for number in sorted(around)
        if 0 <= number < len(lines)
    ]


def _cut(line: str, place: int) -> str:
    line = line.removesuffix("\r")
    if len(line) <= SHOWN:
        return line
    start = max(0, min(place - SHOWN // 3, len(line) - SHOWN))
    return f"{'…' if start else ''}{line[start : start + SHOWN]}{'…' if start + SHOWN < len(line) else ''}"


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _read(here: int, name: str, most: int) -> bytes | None:
    """The bytes of a regular file; None if it is too large."""
    with open(os.open(name, _FILE, dir_fd=here), "rb") as file:  # noqa: PTH123 - it is open already
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError
        data = file.read(most + 1)
    return data if len(data) <= most else None


if __name__ == "__main__":
    main()
