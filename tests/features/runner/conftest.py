"""Homes for checkouts, in the box tiers that this machine has."""

import pytest

from coilclaw.sandbox.git import have_git
from tests.features.runner.repo_world import RepoWorld
from tests.missing import lacks
from tests.sandbox.conftest import BUBBLEWRAP

TIERS = ("A", "B")


@pytest.fixture
def world_of(sample, request):
    """Makes a world in a tier."""
    import shutil

    if not have_git():
        lacks("git", "Install the package git.")

    def make(tier: str = "B", **overrides: object) -> RepoWorld:
        if tier == "A" and shutil.which("bwrap") is None:
            lacks(*BUBBLEWRAP)
        return RepoWorld(sample(**overrides), tier)

    return make


@pytest.fixture
def world(world_of) -> RepoWorld:
    """A world in the tier that every machine has."""
    return world_of()


@pytest.fixture(params=TIERS)
def each_world(world_of, request) -> RepoWorld:
    """A world in each tier."""
    return world_of(request.param)


@pytest.fixture
async def sessions_of_a_home(sample):
    """Makes a served home whose sessions are ended with the test."""
    from tests.features.runner.session_world import SessionWorld

    made: list[SessionWorld] = []

    def make(tier: str = "B", **overrides: object) -> SessionWorld:
        import shutil

        if tier == "A" and shutil.which("bwrap") is None:
            lacks(*BUBBLEWRAP)
        made.append(SessionWorld(sample, tier, **overrides))
        return made[-1]

    yield make
    for each in made:
        await each.close()


@pytest.fixture
def models_of_a_session(sample):
    """Makes a session with a fake provider."""
    from tests.features.runner.model_world import ModelWorld

    made: list[ModelWorld] = []

    def make(provider: str = "codex", **fields: object) -> ModelWorld:
        made.append(ModelWorld(sample, provider, **fields))
        return made[-1]

    yield make
    for each in made:
        each.close()
