"""What must outlive a crash: small JSON files written durably, the locks, and the watcher's own log."""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import suppress
from pathlib import Path

from .intake import fsync_folder

ASKS = 64


def write_json(path: Path, value: dict[str, object]) -> None:
    """Replace a file, and return only when a crash of the machine cannot take it back."""
    beside = path.with_name(f".{path.name}.new")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    fsync_folder(path.parent)


def read_json(path: Path) -> dict[str, object]:
    """The file's object; empty when there is none that can be read."""
    with suppress(OSError, ValueError):
        value = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(value, dict):
            return dict(value)  # pyright: ignore[reportUnknownArgumentType]: JSON objects have text for keys
    return {}


def remove(path: Path) -> None:
    """Delete a file durably; it may be gone already."""
    path.unlink(missing_ok=True)
    fsync_folder(path.parent)


def lock(path: Path) -> int | None:
    """Take a lock and give its descriptor; nothing when another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


class Log:
    """The watcher's log: one line each, rotated, and never a reason to stop."""

    def __init__(self, path: Path, largest: int) -> None:
        self._path = path
        self._largest = largest

    def __call__(self, text: str) -> None:
        with suppress(OSError):
            if self._path.exists() and self._path.stat().st_size > self._largest:
                self._path.replace(self._path.with_name(self._path.name + ".1"))
            shown = "".join(letter if letter.isprintable() else " " for letter in text)[:2000]
            with self._path.open("a", encoding="utf-8") as file:
                file.write(time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime()) + shown + "\n")


class WatcherState:
    """state.json, which `evolve status` and the panel read: phase, branch, sha, pid, since, failures, reason."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held = read_json(path)

    @property
    def held(self) -> bool:
        """Whether nothing is launched until the owner acts."""
        return self._held.get("phase") == "held"

    def note(self, **changed: object) -> None:
        """Change some of it, durably."""
        if "phase" in changed and changed["phase"] != self._held.get("phase"):
            changed["since"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._held |= changed
        write_json(self._path, self._held)

    def text(self, key: str) -> str:
        """A text of it."""
        value = self._held.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> int:
        """A number of it."""
        value = self._held.get(key)
        return value if isinstance(value, int) else 0

    def names(self, key: str) -> list[str]:
        """A list of names in it."""
        value = self._held.get(key)
        return [str(name) for name in value] if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]: any item becomes text


class DeskFiles:
    """Questions to the desk, its answers, and its orders: files in a folder that only the owner can reach."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def ask(self, name: str, value: dict[str, object]) -> bool:
        """Ask something; the same name asks it once. Not done when too much waits for the desk already."""
        path = self._folder / f"ask-{name}.json"
        alike = f"ask-{name.partition('-')[0]}-*.json"  # merges that wait must not keep a notice from the owner
        if not path.exists() and len(list(self._folder.glob(alike))) >= ASKS:
            return False
        write_json(path, {"id": name} | value)
        return True

    def notice(self, severity: str, text: str) -> bool:
        """Have the owner told."""
        return self._tell({"kind": "notice", "severity": severity, "text": text})

    def moved(self, branch: str, sha: str, *, refused: bool) -> bool:
        """Have it audited that a branch was taken in or refused."""
        name = branch.encode("utf-8", "replace").decode()[:200]
        return self._tell({"kind": "branch", "branch": name, "sha": sha, "refused": refused})

    def _tell(self, value: dict[str, object]) -> bool:
        self._count += 1
        return self.ask(f"{value['kind']}-{time.time_ns()}-{self._count}", value)

    def asked(self, name: str) -> dict[str, object]:
        """A question that still waits."""
        return read_json(self._folder / f"ask-{name}.json")

    def answers(self) -> list[tuple[str, dict[str, object]]]:
        """Answers by the name of their question."""
        found = self._named("answer-")
        return [(path.name.removeprefix("answer-").removesuffix(".json"), read_json(path)) for path in found]

    def settle(self, name: str) -> None:
        """Forget a question with its answer; the question goes first, so that it cannot be answered again."""
        remove(self._folder / f"ask-{name}.json")
        remove(self._folder / f"answer-{name}.json")

    def orders(self) -> list[tuple[Path, dict[str, object]]]:
        """What the owner wants done, oldest first."""
        return [(path, read_json(path)) for path in self._named("order-")]

    def _named(self, start: str) -> list[Path]:
        """The first files of a kind; asked twice a second, so without patterns."""
        names = os.listdir(self._folder)  # noqa: PTH208 - as above
        found = [name for name in names if name.startswith(start) and name.endswith(".json")]
        return [self._folder / name for name in sorted(found)[:ASKS]]
