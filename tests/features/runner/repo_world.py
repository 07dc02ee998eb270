"""A home with real boxes, and a repository of the owner's to make checkouts of."""

import os
import subprocess
from pathlib import Path

from coilclaw.features.runner.checkouts import Checkouts
from coilclaw.features.runner.sources import RepoSource
from coilclaw.packets.box import BoxLimits, BoxSpec
from coilclaw.sandbox.box import open_box

FIXED = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "init.defaultBranch=main")


def git(folder: Path, *words: str, given: bytes | None = None) -> str:
    """Run git as the owner would, without anybody's settings."""
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *FIXED, *words], cwd=folder, check=True, capture_output=True, env=environ, timeout=280, input=given
    )
    return done.stdout.decode().strip()


class RepoWorld:
    """One home, one repository."""

    def __init__(self, sample, tier: str) -> None:
        self.attach(sample, tier)
        self.folder.mkdir()
        git(self.folder, "init", "-q")
        self.commit({"README.md": "hello\n", "src/a.py": "a = 1\n", "src/b.py": "b = 1\nb = 2\n"})

    def attach(self, sample, tier: str) -> None:
        """Work in a home that is there already."""
        self.sample = sample
        self.app = sample.app
        app = self.app
        box = open_box(hide=(str(app.home.root),), owned=(str(app.config.workspace_dir),), prefer=tier)
        app.open_box = lambda: box
        self.box = box
        self.checkouts = Checkouts(app)
        self.folder = sample.folder / "site"
        self.source = self.source_at(self.folder)

    def source_at(self, folder: Path, **more: object) -> RepoSource:
        return RepoSource(provider="local", owner="", name="site", repository="site", path=str(folder), **more)

    def commit(self, files: dict[str, str], folder: Path | None = None) -> str:
        """Commit files in the owner's repository; the commit."""
        folder = folder or self.folder
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", "change")
        return git(folder, "rev-parse", "HEAD")

    async def prepare(self, session_id: str = "sess_1", ref: str = "", kind: str = "branch", source=None):
        return await self.checkouts.prepare(session_id, source or self.source, ref, kind, "write")

    async def inside(self, checkout, command: str, code: int = 0) -> str:
        """Run a command in the checkout's box, as a session would."""
        spec = BoxSpec(
            command=command,
            workspace=checkout.path,
            cwd=checkout.path,
            mounts=self.checkouts.box_mounts(checkout),
            limits=BoxLimits(wall_seconds=120, cpu_seconds=120, memory_bytes=2 << 30, output_bytes=8 << 20),
        )
        result = await self.box.run(spec)
        assert (result.end, result.exit_code) == ("exited", code), (result.reason, result.stderr)
        return result.stdout.decode("utf-8", "replace")

    async def changes(self, checkout) -> dict[str, tuple[str, int, int]]:
        found = await self.checkouts.changes(checkout)
        return {each.path: (each.status, each.added, each.removed) for each in found}

    @property
    def sessions(self) -> Path:
        return self.app.config.sessions_dir

    def cache(self) -> Path:
        (found,) = [path for path in (self.sessions / ".repos").iterdir() if path.name.endswith(".git")]
        return found
