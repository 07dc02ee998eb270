"""A program in a real box reaches its model through the server, which adds the key and counts."""

import shutil

import msgspec
import pytest

from coilclaw.config import ResponsesModel
from coilclaw.features.runner.adapters.known import adapter_of
from coilclaw.features.runner.adapters.placing import check_program
from coilclaw.features.runner.adapters.versions import Versions
from coilclaw.features.runner.spec import StartSession
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.fake_responses import FakeResponses
from tests.features.runner.model_world import KEY
from tests.features.runner.session_world import REPO, SessionWorld, until
from tests.missing import lacks
from tests.sandbox.conftest import BUBBLEWRAP

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("tier", ["A", "B"])
async def test_the_model_answers_inside_the_box_and_the_key_stays_outside(sample, tier):
    if tier == "A" and shutil.which("bwrap") is None:
        lacks(*BUBBLEWRAP)
    fake = FakeResponses(api_key=KEY).start()
    world = SessionWorld(sample, tier, environ={"MODEL_KEY": KEY})
    app = world.app
    model = ResponsesModel(model="fake-model", base_url=fake.base_url, api_key_env="MODEL_KEY")
    app.config = msgspec.structs.replace(
        app.config,
        providers=msgspec.structs.replace(app.config.providers, models={"theirs": model}),
        runner=msgspec.structs.replace(app.config.runner, fake_provider=True),
    )
    try:
        async with world.serving() as site:
            goal = "model hello\nrun env"
            policy = {"shell_allowlist": ["env"]}
            session_id = await world.start(site, provider="fake", task={"goal": goal}, policy=policy)

            async def done():
                return "fake is done" in await world.text(site, session_id)

            await until(done)
            text = await world.text(site, session_id)
            assert "model: 200" in text, text
            assert KEY not in text
            row = await until(lambda: (found := world.row(session_id)).provider_invocations and found)
            assert row.provider_invocations == 1
            assert row.input_tokens > 0
    finally:
        await world.close()
        fake.stop()


@pytest.mark.parametrize(
    ("program", "words"), [("codex", "codex is not installed"), ("gemini", "gemini is not installed")]
)
async def test_a_program_that_cannot_run_is_refused_before_anybody_is_asked(sample, program, words):
    world = SessionWorld(sample)
    wanted = msgspec.convert({"repo": REPO, "provider": program}, StartSession)
    with pytest.raises(ToolError, match=words):
        world.sessions.start_call(world.sessions.new_id(), wanted)


async def test_a_program_without_a_model_says_how_to_get_one(sample):
    world = SessionWorld(sample)
    adapter = adapter_of("claude")
    folder = Versions(world.app).folder(adapter, adapter.version)
    folder.mkdir(parents=True)
    (folder.parent / "current").write_text(adapter.version)
    with pytest.raises(ToolError, match=r"there is no model for claude\. Add a provider of kind anthropic"):
        check_program(world.app, "claude")
