"""Either stop stops both: ESTOP here, and the variable COILCLAW_STOP there."""

import pytest

from coilclaw.features.forge.actions.kill_switch import STOP, set_stop_there
from coilclaw.features.forge.github.mirror import GitHubMirror
from coilclaw.sandbox.fake_github import GitHubReply


async def test_the_variable_set_on_github_engages_estop_at_the_next_look(desk):
    desk = desk()
    mirror = GitHubMirror(desk.app, desk.here.background.conveyor)
    await mirror.sync()
    assert not desk.app.estop.engaged()
    desk.fake.variables[STOP] = "1"
    await mirror.sync()
    assert desk.app.estop.engaged()
    assert "COILCLAW_STOP" in desk.app.estop.state().reason


async def test_estop_sets_the_variable_at_once_and_at_the_next_look(desk):
    desk = desk()
    desk.app.estop.engage("x", "2026-01-01T00:00:00.000Z")
    assert await set_stop_there(desk.app) == ""
    assert desk.fake.variables == {STOP: "estop"}
    desk.fake.variables[STOP] = ""
    await GitHubMirror(desk.app, desk.here.background.conveyor).sync()
    assert desk.fake.variables == {STOP: "estop"}


async def test_a_stop_that_cannot_be_told_is_said_and_stays(desk):
    desk = desk()
    desk.app.estop.engage("x", "2026-01-01T00:00:00.000Z")
    desk.fake.instead.append((r"PATCH .*", GitHubReply(status=503, body={"message": "away"})))
    assert "may have done it" in await set_stop_there(desk.app)
    assert desk.app.estop.engaged()


async def test_while_stopped_nothing_else_is_sent(desk):
    desk = desk()
    desk.app.estop.engage("x", "2026-01-01T00:00:00.000Z")
    await GitHubMirror(desk.app, desk.here.background.conveyor).sync()
    assert all("variables" in path or "access_tokens" in path for _, path in desk.fake.writes())


async def test_a_job_is_handed_in_from_here_only_to_a_private_repository(desk):
    from coilclaw.features.forge.actions.remote_jobs import RemoteJobs, hand_in_here
    from coilclaw.packets.errors import UsageError
    from coilclaw.packets.job import JobPacket

    desk = desk()
    words = await hand_in_here(desk.app, JobPacket(intent="Look."))
    (body,) = (body for _, body in desk.fake.dispatched)
    job_id = body["inputs"]["job_id"]
    assert job_id in words
    assert (await RemoteJobs(desk.app).packet(job_id)).intent == "Look."
    desk.fake.private = False
    with pytest.raises(UsageError, match="not private"):
        await hand_in_here(desk.app, JobPacket(intent="Look."))


def test_the_settings_of_runs_name_other_secrets_and_no_path_of_this_machine():
    from coilclaw.features.forge.actions.run_settings import run_settings

    text = run_settings(
        'workspace_dir = "/home/me/w"\ndefault_provider = "a"\n[providers.models.a]\nkind = "openai-compatible"\n'
        'api_key_env = "MINE"\n[forge]\ntrees_dir = "/home/me/t"\n[forge.github]\nprivate_key_env = "BOT_KEY"\n'
        '[notify]\nx = "y"\n'
    )
    assert "/home" not in text
    assert not {"MINE", "BOT_KEY", "notify"} & set(text.replace('"', " ").split())
    assert 'api_key_env = "CI_MODEL_KEY"' in text
    assert 'private_key_env = "CI_APP_KEY"' in text
