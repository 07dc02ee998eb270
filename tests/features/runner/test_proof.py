"""A program is proved by its behaviour before it is used."""

import pytest

from coilclaw.features.runner.adapters import fake
from coilclaw.features.runner.adapters.contract import CliPlace
from coilclaw.features.runner.adapters.placing import put_in_place
from coilclaw.features.runner.adapters.proof import MANNERS, MODES, ProofResult, prove

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("tier", ["A", "B"])
async def test_fake_does_as_its_hook_says(sessions_of_a_home, tier):
    world = sessions_of_a_home(tier)
    manners = MANNERS if tier == "B" else MANNERS[:2]  # what nobody answers takes its time
    results = await prove(world.app, fake.ADAPTER, None, manners=manners)
    assert [(each.mode, each.manner) for each in results] == [(mode, each) for mode in MODES for each in manners]
    assert all(each.holds for each in results), results


async def test_program_without_hooks_fails_its_proof(sessions_of_a_home, monkeypatch):
    world = sessions_of_a_home()
    import msgspec

    def unguarded(place):
        made = fake.launch(place)
        return msgspec.structs.replace(made, environment=(("FAKE_PROMPT", f"unguarded\n{place.prompt}"),))

    broken = msgspec.structs.replace(fake.ADAPTER, launch=unguarded)
    assert not any(each.holds for each in await prove(world.app, broken, None, modes=("terminal",)))


@pytest.mark.parametrize("verb", ["sneak", "defy"])
async def test_program_without_a_screen_that_does_not_obey_fails_its_proof(sessions_of_a_home, verb):
    world = sessions_of_a_home()
    (result,) = await prove(world.app, fake.ADAPTER, None, modes=("structured",), manners=("deny",), verb=verb)
    assert (result.ran, result.holds) == (True, False)


def test_proof_holds_only_if_the_hook_was_asked():
    assert not ProofResult(manner="deny", asked=False, ran=False).holds
    assert not ProofResult(manner="deny", asked=True, ran=True).holds


def test_links_left_in_a_home_are_not_followed(tmp_path):
    home, outside = tmp_path / "s" / ".home", tmp_path / "outside"
    home.mkdir(parents=True)
    outside.write_text("mine")
    (home / ".claude.json").symlink_to(outside)
    from coilclaw.features.runner.adapters.claude import ADAPTER

    place = CliPlace(home="/session/home", cwd="/w", checkout="/w", program="/p")
    put_in_place(ADAPTER, place, home, None)
    assert outside.read_text() == "mine"
    assert not (home / ".claude.json").is_symlink()
