"""Where everything of the agent is, below `evolve` in the home."""

from pathlib import Path

import msgspec

CODE = "coilclaw"
"""The checkout within a branch's folder."""


class EvolvePlaces(msgspec.Struct, frozen=True):
    """The folders; the watcher knows them by the same names."""

    root: Path

    @property
    def record(self) -> Path:
        """The repository that counts; the owner clones it and pushes to it."""
        return self.root / "bot.git"

    @property
    def remote(self) -> Path:
        """The agent's side of it."""
        return self.root / "remote.git"

    @property
    def bot(self) -> Path:
        """The agent's volume."""
        return self.root / "bot"

    @property
    def box(self) -> Path:
        """An empty folder, where the agent's process begins."""
        return self.root / "box"

    @property
    def desk(self) -> Path:
        """What the watcher asks CoilClaw, and the answers."""
        return self.root / "desk"

    @property
    def state(self) -> Path:
        """What the watcher keeps for itself."""
        return self.root / "state"

    @property
    def settings(self) -> Path:
        """What the watcher is told."""
        return self.root / "settings.json"

    @property
    def routed(self) -> Path:
        """Is there once the owner allowed a route, with proof."""
        return self.root / "routed"

    @property
    def wheels(self) -> Path:
        """Has the folder of the packages that the agent installs from."""
        return self.root / "wheels"

    @property
    def pinned(self) -> Path:
        """Which folder of them is in force, by which digest."""
        return self.root / "wheels.json"

    def code(self, branch: str) -> Path:
        """The checkout of a branch."""
        return self.bot / branch / CODE


def places_of(home: Path) -> EvolvePlaces:
    """Of a home."""
    return EvolvePlaces(home / "evolve")
