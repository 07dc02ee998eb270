"""Versions of coding programs: side by side, with hashes, proved before they are used."""

import json

import msgspec
import pytest

from coilclaw.features.runner.adapters.canary import MOST_FAILED, NEEDED, begin_canary, canary_of, program_for
from coilclaw.features.runner.adapters.claude import ADAPTER
from coilclaw.features.runner.adapters.integrity import TRIED
from coilclaw.features.runner.adapters.proof import MANNERS, ProofResult
from coilclaw.features.runner.adapters.versions import Versions, checked_version
from coilclaw.features.runner.structured.serving import TASK_FAILED
from coilclaw.packets.errors import ToolError
from tests.features.runner.session_world import SessionWorld
from tests.features.runner.test_desk import row_of


@pytest.fixture
def versions(sample):
    return Versions(sample().app)


def npm_folder(folder, version, integrity="sha512-abc=="):
    """What npm leaves behind."""
    package = folder / "node_modules" / ADAPTER.package
    package.mkdir(parents=True, exist_ok=True)
    (package / "package.json").write_text(json.dumps({"version": version}))
    (package / "program").write_text(f"program {version}")
    lock = {"packages": {f"node_modules/{ADAPTER.package}": {"version": version, "integrity": integrity}}}
    (folder / "node_modules" / ".package-lock.json").write_text(json.dumps(lock))
    return folder


def proved(versions, version):
    """Pretend that it passed."""
    results = tuple(ProofResult(manner=each, asked=True, ran=each == "allow") for each in MANNERS)
    versions._record(ADAPTER, msgspec.structs.replace(versions.named(ADAPTER, version), proved=results))


def test_unproved_version_is_not_used(versions, tmp_path):
    versions.take(ADAPTER, npm_folder(tmp_path, "1.0.0"))
    with pytest.raises(ToolError, match="not passed its proof"):
        versions.use(ADAPTER, "1.0.0")
    with pytest.raises(ToolError, match="not installed"):
        versions.in_use(ADAPTER)


def test_versions_stand_side_by_side_and_roll_back(versions, tmp_path):
    for version in ("1.0.0", "1.1.0"):
        versions.take(ADAPTER, npm_folder(tmp_path, version))
        proved(versions, version)
        versions.use(ADAPTER, version)
    assert [each.version for each in versions.installed(ADAPTER)] == ["1.0.0", "1.1.0"]
    assert versions.in_use(ADAPTER).name == "1.1.0"
    assert versions.roll_back(ADAPTER) == "1.0.0"
    assert versions.in_use(ADAPTER).name == "1.0.0"
    with pytest.raises(ToolError, match="no version"):
        versions.roll_back(ADAPTER)


async def test_changed_files_are_not_tried(versions, tmp_path):
    versions.take(ADAPTER, npm_folder(tmp_path, "1.0.0"))
    program = versions.folder(ADAPTER, "1.0.0") / "node_modules" / ADAPTER.package / "program"
    program.write_text("something else")
    with pytest.raises(ToolError) as refused:
        await versions.try_out(ADAPTER, "1.0.0")
    assert refused.value.code == "HASH_DIFFERS"


@pytest.mark.parametrize("version", ["../1", "", "1/2", ".new", "1\n2"])
def test_version_is_a_plain_name(version):
    with pytest.raises(ToolError):
        checked_version(version)


def test_folder_without_the_program_is_refused(versions, tmp_path):
    with pytest.raises(ToolError, match="npm install") as refused:
        versions.take(ADAPTER, tmp_path)
    assert refused.value.code == "NOT_INSTALLED"


# What npm unpacked


def test_packages_that_were_tried_must_be_those(versions, tmp_path):
    with pytest.raises(ToolError) as refused:
        versions.take(ADAPTER, npm_folder(tmp_path, ADAPTER.version))
    assert refused.value.code == "INTEGRITY"
    known = TRIED[f"{ADAPTER.package}@{ADAPTER.version}"]
    taken = versions.take(ADAPTER, npm_folder(tmp_path, ADAPTER.version, known))
    assert taken.packages == ((f"{ADAPTER.package}@{ADAPTER.version}", known),)


@pytest.mark.parametrize("integrity", ["", "sha1-abc=", "md5-x"])
def test_package_without_a_strong_hash_is_refused(versions, tmp_path, integrity):
    with pytest.raises(ToolError) as refused:
        versions.take(ADAPTER, npm_folder(tmp_path, "1.0.0", integrity))
    assert refused.value.code == "INTEGRITY"


def test_folder_that_npm_did_not_make_is_refused(versions, tmp_path):
    (npm_folder(tmp_path, "1.0.0") / "node_modules" / ".package-lock.json").unlink()
    with pytest.raises(ToolError) as refused:
        versions.take(ADAPTER, tmp_path)
    assert refused.value.code == "INTEGRITY"


def test_package_beside_it_must_be_known_to_npm_too(versions, tmp_path):
    stray = npm_folder(tmp_path, "1.0.0") / "node_modules" / f"{ADAPTER.package}-linux-x64"
    stray.mkdir()
    with pytest.raises(ToolError) as refused:
        versions.take(ADAPTER, tmp_path)
    assert refused.value.code == "INTEGRITY"


# On trial


@pytest.fixture
def trial(sample, tmp_path):
    """A home with a version in use and another one on trial in every session without a screen."""
    world = SessionWorld(sample)
    versions = Versions(world.app)
    for version in ("1.0.0", "1.1.0"):
        versions.take(ADAPTER, npm_folder(tmp_path, version))
        proved(versions, version)
    versions.use(ADAPTER, "1.0.0")
    begin_canary(versions, ADAPTER, "1.1.0", share=100)
    return world, versions


def session_on(world, *, structured=True):
    """A session that was given a version."""
    row = row_of(world, provider="claude", structured=structured, task={"goal": "x"})
    return row.session_id, program_for(world.app, ADAPTER, row).name


async def end(world, session_id, code="EXITED", exit_code=0):
    await world.sessions.record_end(session_id, code, "It ended.", exit_code)


def test_only_sessions_without_a_screen_try_a_version(trial):
    world, versions = trial
    assert session_on(world)[1] == "1.1.0"
    assert session_on(world, structured=False)[1] == "1.0.0"
    begin_canary(versions, ADAPTER, "1.1.0", share=30)
    got = [session_on(world)[1] for _ in range(200)]
    assert 20 < got.count("1.1.0") < 110


async def test_version_that_does_well_becomes_the_default(trial):
    world, versions = trial
    for number in range(NEEDED):
        assert versions.in_use(ADAPTER).name == "1.0.0"
        session_id, version = session_on(world)
        assert version == "1.1.0"
        await end(world, session_id)
        await end(world, session_id)  # counts once
        assert versions.in_use(ADAPTER).name == ("1.1.0" if number == NEEDED - 1 else "1.0.0")
    assert canary_of(versions, ADAPTER) is None
    assert versions.roll_back(ADAPTER) == "1.0.0"


@pytest.mark.parametrize(("code", "status"), [("UNGUARDED", None), ("START_FAILED", None), ("EXITED", 1)])
async def test_version_that_fails_is_taken_back_by_itself(trial, code, status):
    world, versions = trial
    session_id, _ = session_on(world)
    running, _ = session_on(world)
    await end(world, session_id, code, status)
    assert canary_of(versions, ADAPTER) is None
    assert session_on(world)[1] == "1.0.0"
    with pytest.raises(ToolError, match="not passed its proof"):
        versions.use(ADAPTER, "1.1.0")
    alerts = [each.data["message"] for each in world.events(session_id, "ALERT_RAISED")]
    assert any("on trial and failed" in each for each in alerts)
    await end(world, running)  # it kept its version, and says nothing any more
    assert versions.in_use(ADAPTER).name == "1.0.0"


async def test_task_that_fails_says_nothing_but_several_take_the_version_back(trial):
    world, versions = trial
    await end(world, session_on(world)[0])
    for _ in range(MOST_FAILED):
        assert canary_of(versions, ADAPTER) is not None
        session_id, version = session_on(world)
        assert version == "1.1.0"
        await end(world, session_id, "EXITED", TASK_FAILED)
        await end(world, session_id, "EXITED", TASK_FAILED)  # counts once
    assert len(canary_of(versions, ADAPTER).failed) == MOST_FAILED, "one that ended well makes up for one"
    await end(world, session_on(world)[0], "EXITED", TASK_FAILED)
    assert canary_of(versions, ADAPTER) is None
    assert session_on(world)[1] == "1.0.0"


@pytest.mark.parametrize("code", ["STOPPED", "ESTOP", "LOST", "LIMIT"])
async def test_session_that_was_ended_from_outside_says_nothing(trial, code):
    world, versions = trial
    await end(world, session_on(world)[0], code, None)
    assert canary_of(versions, ADAPTER).good == ()


async def test_version_in_use_does_not_fail_the_one_on_trial(trial):
    world, versions = trial
    session_id, _ = session_on(world, structured=False)
    await end(world, session_id, "EXITED", 1)
    assert canary_of(versions, ADAPTER) is not None


def test_unproved_version_is_not_tried(trial, tmp_path):
    _, versions = trial
    versions.take(ADAPTER, npm_folder(tmp_path, "1.2.0"))
    with pytest.raises(ToolError, match="not passed its proof"):
        begin_canary(versions, ADAPTER, "1.2.0")
    with pytest.raises(ToolError, match="in use already"):
        begin_canary(versions, ADAPTER, "1.0.0")
