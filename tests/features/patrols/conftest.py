"""Homes that look after a repository."""

import shutil

import pytest

from coilclaw.sandbox.git import have_git
from tests.features.patrols.patrol_world import PatrolWorld
from tests.missing import lacks
from tests.sandbox.conftest import BUBBLEWRAP


@pytest.fixture
async def patrol_world(sample):
    """Makes worlds, whose sessions are ended with the test."""
    if not have_git():
        lacks("git", "Install the package git.")
    made: list[PatrolWorld] = []

    def make(tier="B", overrides=None, **settings) -> PatrolWorld:
        if tier == "A" and shutil.which("bwrap") is None:
            lacks(*BUBBLEWRAP)
        made.append(PatrolWorld(sample(**(overrides or {})), tier=tier, **settings))
        return made[-1]

    yield make
    for each in made:
        await each.close()
