"""Git as a subprocess: no hooks, no foreign configuration, local files as the only transport, and limits."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SAFE = (
    "core.hooksPath=/dev/null", "protocol.allow=never", "protocol.file.allow=always", "protocol.version=2",
    "fetch.fsckObjects=true", "fetch.unpackLimit=1", "gc.auto=0", "maintenance.auto=false", "core.fsmonitor=false",
    "core.logAllRefUpdates=true", "core.fsync=all", "core.bigFileThreshold=1m", "core.commitGraph=false",
    "core.multiPackIndex=false", "pack.useBitmaps=false", "pack.threads=1", "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null", "user.useConfigOnly=true", "advice.detachedHead=false",
)  # fmt: skip
MEMORY_KB = 2 << 20
PROCESSOR_SECONDS = 30
FILE_BLOCKS = 1 << 20  # of 512 bytes, as sh counts them: a file git writes stays below 512 MiB
SECONDS = 60
ANSWER = 1 << 20
LIMITED = f'ulimit -v {MEMORY_KB}; ulimit -t {PROCESSOR_SECONDS}; ulimit -f {FILE_BLOCKS}; exec "$@"'

WATCHER = ("CoilClaw watcher", "watcher@evolve.invalid")
OWNER = ("owner", "owner@evolve.invalid")
AGENT = ("agent", "agent@evolve.invalid")


class RecordError(Exception):
    """Something the record refuses or cannot do; the text says what and what to do next."""


class Git:
    """One repository, and how it is spoken to."""

    def __init__(self, directory: Path, state: Path) -> None:
        self.directory = directory
        self.state = state

    def run(
        self,
        *words: str,
        given: bytes = b"",
        allowed: tuple[int, ...] = (0,),
        who: tuple[str, str] = WATCHER,
        also: dict[str, str] | None = None,
    ) -> bytes:
        """What git printed; any other exit code than those allowed is an error."""
        code, out = self.ask(*words, given=given, who=who, also=also)
        if code not in allowed:
            raise RecordError(f"git {words[0]} failed ({code}): {_plain(out)}")
        return out

    def ask(
        self,
        *words: str,
        given: bytes = b"",
        who: tuple[str, str] = WATCHER,
        also: dict[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """The exit code and what was printed (of a failure, what git complained about)."""
        environment = self.environment(who) | (also or {})
        try:
            done = subprocess.run(
                self.argv(*words),
                input=given,
                capture_output=True,
                timeout=SECONDS,
                env=environment,
                cwd="/",
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise RecordError(f"git {words[0]} took longer than {SECONDS} seconds") from None
        if done.returncode == 0 and len(done.stdout) > ANSWER:
            raise RecordError(f"git {words[0]} printed more than {ANSWER} bytes")
        return done.returncode, done.stdout if done.returncode == 0 else done.stderr[-2000:]

    def text(self, *words: str, given: bytes = b"", who: tuple[str, str] = WATCHER) -> str:
        """One line of an answer."""
        return self.run(*words, given=given, who=who).decode("utf-8", "replace").strip()

    def argv(self, *words: str) -> list[str]:
        """The command line, under limits of memory, processor time and file size."""
        options = [part for option in SAFE for part in ("-c", option)]
        return ["/bin/sh", "-c", LIMITED, "git", "git", f"--git-dir={self.directory}", *options, *words]

    def environment(self, who: tuple[str, str] = WATCHER) -> dict[str, str]:
        """Nothing of the caller's but PATH. The other side of a fetch sees no options, hence a file."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": "/nonexistent",
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(self.state / "gitconfig"),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_AUTHOR_NAME": who[0],
            "GIT_AUTHOR_EMAIL": who[1],
            "GIT_COMMITTER_NAME": who[0],
            "GIT_COMMITTER_EMAIL": who[1],
        }


def _plain(text: bytes) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text.decode("utf-8", "replace"))[:300].strip()
