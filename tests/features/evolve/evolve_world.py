"""A home with an agent's repository, and programs that run in its place, in real boxes."""

import asyncio
import json
import os
import subprocess
from pathlib import Path

from coilclaw.features.evolve.box import evolve_box
from coilclaw.features.evolve.init import make_repository
from coilclaw.features.evolve.launch import launched
from coilclaw.features.evolve.places import places_of
from coilclaw.features.evolve.watcher.record import Record


def git(folder: Path, *words: str) -> str:
    """Run git as the agent would, from outside."""
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=agent", "-c", "user.email=agent@evolve.invalid", "-c", "safe.directory=*")
    done = subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, env=environ, timeout=280)
    return done.stdout.decode().strip()


class EvolveWorld:
    """One home with an agent."""

    def __init__(self, sample, tier: str) -> None:
        self.sample, self.app, self.tier = sample, sample.app, tier
        source = sample.folder / "source"
        source.mkdir()
        (source / "hello.txt").write_text("hello\n")
        make_repository(self.app, source)
        self.places = places_of(self.app.home.root)
        self.record = Record(self.places.root)

    def box(self):
        return evolve_box(self.app, self.tier)

    def put(self, branch: str, program: str) -> Path:
        """A checkout of a branch whose runner is this program."""
        code = self.places.code(branch)
        (code / "infra").mkdir(parents=True)
        (code / "infra" / "runner.py").write_text(program)
        return code

    async def run(self, program: str, branch: str = "agent/probe") -> int:
        """Run a program in the agent's place; its exit code. What it prints is printed."""
        self.put(branch, program)
        return await launched(self.app, branch, self.box())

    def told(self, name: str = "told.json"):
        """What a program left in the volume."""
        return json.loads((self.places.bot / name).read_text())


async def until(holds, seconds: float = 60.0) -> None:
    """Wait for something another process does."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not holds():
        assert asyncio.get_running_loop().time() < deadline, "waited in vain"
        await asyncio.sleep(0.02)
