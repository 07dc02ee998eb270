"""A model per conversation: chosen at the terminal or over HTTP, kept with the conversation, never in its way."""

import json

import pytest

from coilclaw.config import MockModel, Providers, RouterModel
from coilclaw.features.chat.agent import agent_of
from coilclaw.features.chat.models import ConversationModels
from coilclaw.features.chat.post_message import post
from coilclaw.features.chat.repl import Repl
from coilclaw.packets.errors import UsageError
from coilclaw.store.threads import set_thread_model, thread_model
from tests.features.conftest import calls
from tests.server.site import served, unlimited

PROVIDERS = Providers(models={"local": MockModel(), "strong": MockModel(model="strong-1")})


async def asked(home, thread="conv_1", text="hi"):
    return await post(agent_of(home.app, home.conveyor()), home.app, thread, text, None)


async def test_the_chosen_provider_answers_there_and_nowhere_else(sample):
    home = sample(providers=PROVIDERS)
    home.script({"text": "one"}, {"text": "two"})
    await ConversationModels(home.app).choose("conv_1", "strong", "cli")
    first, other = await asked(home), await asked(home, "conv_2")
    assert (first.provider, first.model) == ("strong", "strong-1")
    assert other.provider == "local"
    title = home.app.db.reader.execute("SELECT title FROM threads WHERE thread_id = 'conv_1'").fetchone()
    assert title == ("hi",)


async def test_a_turn_that_waited_continues_with_it(sample):
    from coilclaw.features.chat.turns import Turns
    from coilclaw.packets.card import Answer
    from coilclaw.store.actions import waiting_actions
    from coilclaw.store.threads import turn_messages

    home = sample(providers=PROVIDERS)
    home.script(calls(("file_write", {"path": "x.txt", "content": "x"})), {"text": "written"})
    home.owner.answer = Answer(approved=None, reason="")
    await ConversationModels(home.app).choose("conv_1", "strong", "cli")
    reply = await asked(home)
    assert reply.ending == "pending"
    (action,) = waiting_actions(home.app.db.reader, 9)
    await home.approve(action.action_id)
    turns = Turns(home.app, home.conveyor())
    await turns.go_on()
    turns.close()
    rows = [row for row in turn_messages(home.app.db.reader, "conv_1", reply.turn_id, 99) if row.role == "assistant"]
    assert [row.provider for row in rows] == ["strong", "strong"]


async def test_one_that_left_the_configuration_is_told_and_the_default_answers(sample):
    home = sample(providers=PROVIDERS)
    home.script({"text": "still here"})
    await ConversationModels(home.app).choose("conv_1", "strong", "cli")
    home.app.db.write_now(lambda tx: set_thread_model(tx, "conv_1", "gone"))
    reply = await asked(home)
    assert (reply.text, reply.provider) == ("still here", "local")
    assert any("gone" in str(fields) for event, fields in home.events if event == "warning")


async def test_an_unknown_name_is_an_error_that_names_the_nearest(sample):
    home = sample(providers=PROVIDERS)
    with pytest.raises(UsageError, match="strong"):
        await ConversationModels(home.app).choose("conv_1", "storng", "cli")
    assert thread_model(home.app.db.reader, "conv_1") is None


async def test_the_default_is_kept_as_no_choice(sample):
    home = sample(providers=PROVIDERS)
    models = ConversationModels(home.app)
    await models.choose("conv_1", "strong", "cli")
    await models.choose("conv_1", "local", "cli")
    assert thread_model(home.app.db.reader, "conv_1") is None


async def test_a_router_can_be_passed_over(sample):
    home = sample(
        providers=Providers(
            models={
                **PROVIDERS.models,
                "both": RouterModel(default="local", routes={"chat": "local", "plan": "strong"}),
            }
        ),
        default_provider="both",
    )
    home.script({"text": "one"}, {"text": "two"})
    assert (await asked(home)).provider == "local"
    await ConversationModels(home.app).choose("conv_1", "strong", "cli")
    assert (await asked(home)).provider == "strong"


async def test_a_router_is_told_what_each_request_is_for(sample, tmp_path):
    """Those of jobs (`route`, `plan`, `job`, `author`) are told apart in tests/features/jobs/test_planning.py."""
    models = {}
    for name, text in {"talker": "an answer", "shortener": "a summary", "other": "nobody should ask me"}.items():
        script = tmp_path / f"{name}.json"
        script.write_text(json.dumps([{"text": text}]))
        models[name] = MockModel(model=f"{name}-1", script=str(script))
    models["by_task"] = RouterModel(default="other", routes={"chat": "talker", "summarise": "shortener"})
    home = sample(providers=Providers(models=models), default_provider="by_task")
    replies = [await asked(home, text=f"hello {number} " * 40) for number in range(6)]
    assert {(reply.provider, reply.text) for reply in replies} == {("talker", "an answer")}
    assert await agent_of(home.app, home.conveyor()).compact("conv_1") > 0
    shortest = home.app.db.reader.execute("SELECT content FROM messages WHERE provider <> 'talker' AND role = 'system'")
    assert shortest.fetchall() == [("a summary",)]


async def test_slash_model_shows_and_chooses(sample, capsys):
    home = sample(providers=PROVIDERS)
    repl = Repl(home.app, "conv_1", assume_yes=False)
    await repl._command("/model")
    assert "local answers here. Configured: local, strong." in capsys.readouterr().out
    await repl._command("/model strong")
    assert "strong answers" in capsys.readouterr().out
    await repl._command("/model storng")
    assert "Did you mean strong?" in capsys.readouterr().out
    assert thread_model(home.app.db.reader, "conv_1") == "strong"


async def test_over_http_it_is_chosen_shown_and_taken_back(sample):
    from coilclaw.features.chat.feature import chat_part

    async with served(sample(providers=PROVIDERS), chat_part, rates=unlimited()) as site:
        made = (await site.http.post("/v1/chat/threads", json={"title": "t", "model": "strong"})).json()
        assert made["model"] == "strong"
        at = f"/v1/chat/threads/{made['thread_id']}"
        assert (await site.http.patch(at, json={"model": None})).json()["model"] is None
        renamed = (await site.http.patch(at, json={"title": "other", "model": "strong"})).json()
        assert (renamed["title"], renamed["model"]) == ("other", "strong")
        wrong = await site.http.patch(at, json={"model": "storng"})
        assert wrong.status_code == 422
        assert "strong" in wrong.text
        assert (await site.http.patch(at, json={})).status_code == 422
        assert (await site.http.get(at)).json()["model"] == "strong"
        assert (await site.http.patch("/v1/chat/threads/conv_no", json={"model": "strong"})).status_code == 404
