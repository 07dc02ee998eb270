"""Bots with a pull request to check."""

import pytest

from tests.features.forge.forge_world import World


@pytest.fixture
def world(tmp_path):
    made = []

    def make(**config):
        made.append(World(tmp_path, **config))
        return made[-1]

    yield make
    for each in made:
        each.sample.close()


@pytest.fixture
def bot(world):
    return world()
