"""Everything the watcher is told, in one file that `coilclaw evolve up` writes before it starts it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path


@dataclass(frozen=True)
class WatcherSettings:
    """Paths, seconds, limits and the launcher's argv; sizes are bytes."""

    home: str
    """The folder of bot.git, remote.git, bot/, state/ and desk/."""
    launch: tuple[str, ...]
    """The launcher; `{branch}`, `{sha}` and `{directory}` are replaced. It must end when its standard input closes."""
    look_seconds: float = 600
    """How often the watcher looks when nothing happens."""
    poll_seconds: float = 1
    """How often it looks for signals."""
    start_seconds: float = 120
    """How long a start may take until SUCCESS."""
    stop_seconds: float = 3
    """How long an agent may take to end before its whole process tree is killed."""
    first_pause: float = 2
    """The pause after a crash; it doubles with each one."""
    longest_pause: float = 600
    steady_seconds: float = 600
    """An agent that ran this long after SUCCESS has no crash held against it."""
    main_failures: int = 3
    """So many failed starts of main in a row, and the watcher holds."""
    merge_wait: float = 0
    """How long main waits for the answer to a merge before it is launched as it was (0: it runs on meanwhile)."""
    agent_uid: int = -1
    """Who owns what the watcher makes in the volume; -1: whoever runs the watcher."""
    agent_gid: int = -1
    watch_seconds: float = 60
    """How often what the agent uses is measured."""
    cpu_share: float = 0.9
    """Of all processors; above it for `cpu_seconds` the agent is ended."""
    cpu_seconds: float = 900
    processes: int = 256
    open_files: int = 4096
    disk_bytes: int = 2 << 30
    """For the volume, the agent's objects, the record's, and what was moved aside, together."""
    disk_files: int = 200_000
    log_bytes: int = 4 << 20
    """A log is rotated at this size; one older copy is kept."""
    log_per_minute: int = 16 << 20
    """An agent that prints more than this in a minute is ended."""
    clock_seconds: float = 60
    """A jump of the wall clock larger than this is reported."""
    runaways_per_hour: int = 2
    """So many agents ended for what they used, and the watcher holds."""

    def __post_init__(self) -> None:
        if not Path(self.home).is_absolute():
            raise ValueError("home must be an absolute path")
        if not self.launch:
            raise ValueError("launch must name a program")
        for field in fields(self):
            value: object = getattr(self, field.name)
            if isinstance(value, int | float) and value < 0 and not field.name.startswith("agent_"):
                raise ValueError(f"{field.name} must not be negative")

    def argv(self, branch: str, sha: str, directory: str) -> list[str]:
        """The launcher's command line for a branch."""
        named = (part.replace("{branch}", branch).replace("{sha}", sha) for part in self.launch)
        return [part.replace("{directory}", directory) for part in named]

    def save(self, path: Path) -> None:
        """Write the file by rename, readable to its owner only."""
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        beside.unlink(missing_ok=True)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)

    @classmethod
    def load(cls, path: Path) -> WatcherSettings:
        """Read the file; an unknown or missing key is an error."""
        value = json.loads(path.read_text(encoding="utf-8"))
        value["launch"] = tuple(value["launch"])
        return cls(**value)
