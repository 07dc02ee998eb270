"""Git as a subprocess: no hooks, no foreign configuration, local files as the only transport, and limits."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
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
CHUNK = 1 << 16
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
        pipe = subprocess.PIPE
        with subprocess.Popen(
            self.argv(*words), stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd="/"
        ) as process:
            try:
                out, said = _exchanged(process, given)
                if len(out) > ANSWER:
                    raise RecordError(f"git {words[0]} printed more than {ANSWER} bytes")
                code = process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                raise RecordError(f"git {words[0]} took longer than {SECONDS} seconds") from None
            finally:
                process.kill()  # which does nothing to one that has ended
        return code, out if code == 0 else said

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


def _exchanged(process: subprocess.Popen[bytes], given: bytes) -> tuple[bytes, bytes]:
    """What git printed, little more than `ANSWER` of it, and the end of what it complained about.

    Not `communicate`, which holds in memory whatever git prints: commits of the agent's can be of any length.
    """
    asked, answer, complaint = process.stdin, process.stdout, process.stderr
    if asked is None or answer is None or complaint is None:
        raise RecordError("git has no pipes")
    out, said, left = bytearray(), b"", memoryview(given)
    end = time.monotonic() + SECONDS
    with selectors.DefaultSelector() as pipes:
        for pipe in (asked, answer, complaint):
            os.set_blocking(pipe.fileno(), False)
            pipes.register(pipe, selectors.EVENT_WRITE if pipe is asked else selectors.EVENT_READ)
        while pipes.get_map() and len(out) <= ANSWER:
            ready = pipes.select(max(0.0, end - time.monotonic()))
            if not ready and time.monotonic() >= end:
                raise subprocess.TimeoutExpired(process.args, SECONDS)
            for key, _ in ready:
                if key.fileobj is asked:
                    try:
                        left = left[os.write(key.fd, left[:CHUNK]) :]
                    except BrokenPipeError:  # it ended early; its exit code says why
                        left = left[:0]
                    if not left:
                        pipes.unregister(asked)
                        asked.close()
                elif not (chunk := os.read(key.fd, CHUNK)):
                    pipes.unregister(key.fileobj)
                elif key.fileobj is answer:
                    out += chunk
                else:
                    said = (said + chunk)[-2000:]
    return bytes(out), said


def _plain(text: bytes) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text.decode("utf-8", "replace"))[:300].strip()
