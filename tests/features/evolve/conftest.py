"""Worlds of the agent, in the box tiers that this machine has."""

import os
import shutil

import pytest

from coilclaw.sandbox.git import have_git
from coilclaw.sandbox.podman import program
from tests.features.evolve.evolve_world import EvolveWorld
from tests.missing import lacks
from tests.sandbox.conftest import BUBBLEWRAP


@pytest.fixture
def evolve_world(sample):
    """Makes a world in a tier."""
    if not have_git():
        lacks("git", "Install the package git.")
    if not os.access("/usr/bin/python3", os.X_OK):
        lacks("a Python at /usr/bin/python3", "Install the package python3.")

    def make(tier: str = "B", **overrides: object) -> EvolveWorld:
        if tier == "A" and shutil.which("bwrap") is None:
            lacks(*BUBBLEWRAP)
        if tier == "C" and not program():
            lacks("Podman with crun", "Install the packages podman and crun.")
        return EvolveWorld(sample(**overrides), tier)

    return make
