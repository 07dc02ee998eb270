"""The agent's model: any configured provider answers, within the budgets, and nothing else can be asked there."""

import asyncio
import json
from contextlib import asynccontextmanager

import msgspec
import pytest

from coilclaw.config import OpenAIModel
from coilclaw.features.evolve.model import ACCOUNT, EvolveModel
from coilclaw.sandbox.fake_openai import FakeOpenAI
from coilclaw.store.usage import usage_rows
from tests.features.runner.model_world import read_reply

KEY = "sk-live-0123456789abcdefghij"
ASKED = {
    "model": "any",
    "messages": [{"role": "system", "content": "You are."}, {"role": "user", "content": "Continue."}],
    "tools": [
        {"type": "function", "function": {"name": "bash", "description": "Run.", "parameters": {"type": "object"}}}
    ],
}


class World:
    """A provider that speaks chat completions, and the listener before it."""

    def __init__(self, sample, **overrides):
        self.fake = FakeOpenAI(api_key=KEY).start()
        self.sample = sample(environ={"MODEL_KEY": KEY}, **overrides)
        self.app = app = self.sample.app
        model = OpenAIModel(model="fake-model", base_url=self.fake.base_url, api_key_env="MODEL_KEY")
        providers = msgspec.structs.replace(
            app.config.providers, models={"theirs": model, **app.config.providers.models}
        )
        app.config = msgspec.structs.replace(app.config, providers=providers)
        (app.home.root / "evolve" / "desk").mkdir(parents=True)

    @asynccontextmanager
    async def serving(self):
        proxy = EvolveModel(self.app, self.app.provider("theirs"))

        async def serve(reader, writer):
            try:
                await proxy.serve(self.port, reader, writer)
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.fake.stop()

    async def ask(self, body, path="/v1/chat/completions", method="POST", headers=""):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Length: {len(data)}\r\n{headers}\r\n"
        )
        writer.write(head.encode() + data)
        reply = await read_reply(reader)
        writer.close()
        return reply

    def notes(self):
        """What the desk is asked to tell."""
        paths = (self.app.home.root / "evolve" / "desk").glob("ask-*.json")
        return [json.loads(path.read_text()) for path in sorted(paths)]


async def test_the_configured_provider_answers_and_its_key_stays_outside(sample):
    async with World(sample).serving() as world:
        world.fake.script = ['[[tool:bash {"command": "ls"}]]', f"I know {KEY}."]
        reply = await world.ask(ASKED)
        message = json.loads(reply.body)["choices"][0]["message"]
        assert message["tool_calls"][0]["function"] == {"name": "bash", "arguments": '{"command": "ls"}'}
        sent = world.fake.requests[0]
        assert sent.headers["authorization"] == f"Bearer {KEY}"
        assert sent.body["model"] == "fake-model"
        assert [each["role"] for each in sent.body["messages"]] == ["system", "user"]
        assert KEY.encode() not in (await world.ask(ASKED)).body
        rows = usage_rows(world.app.db.reader, "", "model", ACCOUNT)
        assert [(row.model, row.answers) for row in rows] == [("fake-model", 2)]


@pytest.mark.parametrize("key", ["evolve", "budgets"])
async def test_a_budget_that_is_used_up_stops_it_and_is_told_once(sample, key):
    world = World(sample, **{f"{key}__daily_tokens": 1})
    async with world.serving():
        for _ in range(2):
            reply = await world.ask(ASKED)
            assert (reply.status, json.loads(reply.body)["error"]["code"]) == (400, "budget")
        assert world.fake.requests == []
    assert [(each["kind"], "used up" in each["text"]) for each in world.notes()] == [("notice", True)]


async def test_estop_stops_it(sample):
    async with World(sample).serving() as world:
        world.app.estop.engage("test", "now")
        assert (await world.ask(ASKED)).status == 400
        assert world.fake.requests == []


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/v1/models", "GET"), ("/v1/responses", "POST"), ("/v1/files", "POST"), ("http://example.com/", "GET"),
        ("/v1/chat/completions?x=1", "POST"), ("/v1/../v1/chat/completions", "POST"), ("/v1/chat/completions", "GET"),
    ],
)  # fmt: skip
async def test_nothing_but_chat_completions_is_served(sample, path, method):
    async with World(sample).serving() as world:
        reply = await world.ask(ASKED if method == "POST" else b"", path, method)
        assert 400 <= reply.status < 500
        assert world.fake.requests == []


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{}", b"\xff", {"messages": "hi"}, {"messages": [{"role": "owner", "content": "x"}]},
        ASKED | {"stream": True},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://10.0.0.1/x"}}]}]},
        {"messages": [{"role": "user", "content": [{"type": "input_file", "file_url": "http://10.0.0.1/x"}]}]},
    ],
)  # fmt: skip
async def test_what_is_not_plain_text_and_functions_is_refused(sample, body):
    async with World(sample).serving() as world:
        assert (await world.ask(body)).status == 400
        assert world.fake.requests == []


async def test_fields_that_a_provider_would_act_on_are_left_out(sample):
    async with World(sample).serving() as world:
        hosted = [*ASKED["tools"], {"type": "web_search"}, {"type": "mcp", "server_url": "http://10.0.0.1"}]
        await world.ask(
            ASKED | {"tools": hosted, "web_search_options": {}, "store": True, "metadata": {"a": "b"}, "user": "x"}
        )
        sent = world.fake.requests[0].body
        assert [each["function"]["name"] for each in sent["tools"]] == ["bash"]
        assert not {"web_search_options", "store", "metadata", "user"} & set(sent)


async def test_a_provider_that_fails_is_an_error_the_agent_can_read(sample):
    async with World(sample).serving() as world:
        world.fake.script = ["[[status:401]]"]
        reply = await world.ask(ASKED)
        assert reply.status == 502
        assert json.loads(reply.body)["error"]["message"]


async def test_a_provider_that_does_not_answer_is_told_once_until_it_answers_again(sample):
    """Nothing else would say so: the agent runs, and asks again every ten minutes."""
    async with World(sample).serving() as world:
        failing = ["[[status:401]]"]
        world.fake.script = [*failing * 3, "Hello.", *failing]
        for asked, told in enumerate((1, 1, 1, 1, 2)):
            assert (await world.ask(ASKED)).status == (200 if asked == 3 else 502)
            assert len(world.notes()) == told
    first = world.notes()[0]
    assert (first["kind"], first["severity"]) == ("notice", "warning")
    assert "did not answer" in first["text"]
    assert "comms" not in first, "what passes by itself is no line in the owner's file"
