"""Untrusted code on a runner of GitHub Actions: a container without network, rights, secrets or a writable disk.

Our own boxes need user namespaces, which these runners forbid; they have Docker.
"""

import os
import re
import secrets
from pathlib import Path

import msgspec

from coilclaw.packets.errors import BoxUnavailable, ToolError

OUTPUT_BYTES = 256 << 10
_IMAGE = re.compile(r"[a-z0-9][a-z0-9./:_-]{0,199}@sha256:[0-9a-f]{64}")
NOBODY = "65534:65534"
_SCRATCH = "/tmp:rw,nosuid,nodev,mode=1777,size=256m"  # noqa: S108 - in the container, in memory


class ContainerResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a command in a container ended, and what it wrote."""

    exit_code: int
    output: bytes
    """Both streams together, cut at a bound."""
    cut: bool


def container_command(image: str, command: str, tree: Path, name: str) -> list[str]:
    """The whole command line. Pure."""
    if not _IMAGE.fullmatch(image):
        raise ToolError(
            f"{image[:200]!r} is not a container image with a digest.", remedy="Set forge.github.image.", begun=False
        )
    return [
        "docker", "run", "--rm", "--name", name, "--network", "none", "--read-only", "--cap-drop", "ALL",
        "--security-opt", "no-new-privileges", "--user", NOBODY, "--pids-limit", "256", "--memory", "2g",
        "--tmpfs", _SCRATCH, "--volume", f"{tree}:/tree:ro", "--workdir", "/tree",
        image, "sh", "-c", command,
    ]  # fmt: skip


def run_container(image: str, command: str, tree: Path, seconds: float) -> ContainerResult:
    """Run a command over a tree that it can only read. It gets no variable of ours. Blocking."""
    import subprocess
    import threading

    name = f"coilclaw-{secrets.token_hex(8)}"
    environment = {key: os.environ[key] for key in ("PATH", "HOME", "DOCKER_HOST") if key in os.environ}
    try:
        running = subprocess.Popen(
            container_command(image, command, tree, name),
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise BoxUnavailable("there is no docker here, so nothing untrusted is run.") from error

    def end() -> None:
        subprocess.run(["docker", "kill", name], env=environment, capture_output=True, check=False)
        running.kill()

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        with running:
            assert running.stdout is not None  # noqa: S101 - it was asked for
            output = running.stdout.read(OUTPUT_BYTES + 1)
            if len(output) > OUTPUT_BYTES:
                end()
    finally:
        timer.cancel()
    return ContainerResult(exit_code=running.returncode, output=output[:OUTPUT_BYTES], cut=len(output) > OUTPUT_BYTES)
