"""A project with very many files: everything stays bounded, and what was left out is said."""

import os

import pytest

from coilclaw.features.projects.folder import check_folder
from coilclaw.sandbox.search import MOST_FILES
from tests.features.projects.world import add, folder, turn

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FOLDERS = 101


@pytest.fixture
def home(sample):
    home = sample(security__autonomy="full")
    home.code = folder(home, "large", **{"needle.txt": "the needle\n"})
    for number in range(FOLDERS):
        below = home.code / f"d{number:03}"
        below.mkdir()
        for file in range(1000):
            os.close(os.open(below / f"f{file:03}.txt", os.O_CREAT | os.O_WRONLY))
    return home


async def test_a_project_of_100_000_files_is_added_searched_written_and_undone_within_bounds(home):
    assert check_folder(home.app, str(home.code)).path == str(home.code), "adding it looks at the folder alone"
    project = add(home, home.code)

    async def call(tool, key, **args):
        done = await home.call(tool, turn(home, project), key, **args)
        assert done.result.success, done.result.output
        return done.result.output

    assert "needle.txt:1: the needle" in await call("file_search", "s", pattern="needle")
    found = await call("file_search", "g", glob="*.txt", limit=5)
    assert "there may be more" in found or "more" in found.splitlines()[-1], found[-300:]
    every = await call("file_search", "n", glob="nothing-*")
    assert f"[The search ended after {MOST_FILES} files; there may be more.]" in every or "seconds" in every

    await call("shell", "c", command="touch touched.txt")
    asked = [card for card in home.owner.cards if card.tool_name == "shell"]
    assert all("cannot be undone" in " ".join(card.reasons) for card in asked), "it asks only where nothing is kept"
    assert len(home.box.specs) == 1

    await call("file_write", "w", path="made.txt", content="x")
    assert "made.txt" in await call("undo", "u")
    assert not (home.code / "made.txt").exists()
    assert (home.code / "d100" / "f999.txt").exists()
