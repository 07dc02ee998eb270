"""The model listener of a session: what passes, what it costs, and when it stops."""

import asyncio
import json

import msgspec
import pytest

from coilclaw.store.usage import usage_rows
from tests.features.runner.model_world import KEY, question, read_reply
from tests.features.runner.session_world import until

EVERY = pytest.mark.parametrize("provider", ["codex", "claude", "gemini"])


@EVERY
async def test_an_answer_streams_back_and_is_counted(models_of_a_session, provider):
    world = models_of_a_session(provider)
    async with world.serving():
        reply = await world.ask("[[text:one two three]]")
        assert (reply.status, reply.whole) == (200, True)
        assert b"three" in reply.body
        assert reply.headers["content-type"] == "text/event-stream"
        await until(lambda: world.row().provider_invocations == 1)
    row = world.row()
    assert (row.input_tokens, row.cached_tokens, row.output_tokens) == (10, 0 if provider == "claude" else 4, 5)
    cost = 10 * 10 + 5 * 100 if provider == "claude" else 6 * 10 + 4 * 1 + 5 * 100
    assert (row.cost_millionths, row.unpriced_tokens) == (cost, 0)
    assert world.ticks()[-1]["units"]["provider_invocations"] == 1
    assert [(each.provider, each.provider_invocations, each.cost_millionths) for each in world.month()] == [
        (provider, 1, cost)
    ]
    [used] = usage_rows(world.app.db.reader, "2000", "model")
    assert (used.model, used.input_tokens, used.output_tokens, used.estimated) == ("fake-model", 10, 5, 0)


@EVERY
async def test_an_answer_in_one_piece_is_counted_too(models_of_a_session, provider):
    world = models_of_a_session(provider)
    async with world.serving():
        path = world.path.replace("streamGenerateContent?alt=sse", "generateContent")
        more = {} if provider == "gemini" else {"stream": False}
        reply = await world.ask("[[text:whole]]", path=path, **more)
        assert (reply.status, b"whole" in reply.body) == (200, True)
        await until(lambda: world.row().output_tokens == 5)
    assert world.row().input_tokens == 10


@EVERY
async def test_the_real_key_is_added_outside_and_the_programs_own_is_not_sent(models_of_a_session, provider):
    world = models_of_a_session(provider)
    async with world.serving():
        own = ("Authorization: Bearer mine", "x-api-key: mine", "x-goog-api-key: mine", "Cookie: a=b", "X-Evil: yes")
        assert (await world.ask("hi", *own)).status == 200
    [seen] = world.fake.requests
    assert world.fake.key_in(seen.headers) == KEY
    assert "mine" not in str(seen.headers)
    assert {"cookie", "x-evil"} & set(seen.headers) == set()


@EVERY
async def test_the_tools_of_the_programs_are_answered_with_calls(models_of_a_session, provider):
    tool, arguments = {
        "codex": ("exec_command", '{"cmd": "ls"}'),
        "claude": ("Bash", '{"command": "ls"}'),
        "gemini": ("run_shell_command", '{"command": "ls"}'),
    }[provider]
    world = models_of_a_session(provider)
    world.fake.script = [f"[[tool:{tool} {arguments}]]"]
    declared = {
        "codex": [{"type": "function", "name": tool, "parameters": {}}],
        "claude": [{"name": tool, "input_schema": {}}],
        "gemini": [{"functionDeclarations": [{"name": tool}]}],
    }[provider]
    async with world.serving():
        reply = await world.ask("work", tools=declared)
    assert tool.encode() in reply.body
    assert world.fake.script == []


async def test_a_connection_is_kept_and_takes_chunks_and_expectations(models_of_a_session):
    world = models_of_a_session()
    body = json.dumps(question("codex", "[[text:first]]")).encode()
    async with world.serving():
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        writer.write(world.head("POST", None, "Transfer-Encoding: chunked", "Expect: 100-continue"))
        assert (await read_reply(reader)).status == 100
        for part in (body[:10], body[10:]):
            writer.write(b"%x\r\n%s\r\n" % (len(part), part))
        writer.write(b"0\r\n\r\n")
        assert b"first" in (await read_reply(reader)).body
        writer.write(world.request(question("codex", "[[text:second]]")))
        assert b"second" in (await read_reply(reader)).body
        writer.write(world.head("GET", "/v1/models?client_version=0.166.0"))
        assert json.loads((await read_reply(reader)).body)["data"][0]["id"] == "fake-model"
        writer.close()


async def test_a_large_body_passes_and_a_larger_one_does_not(models_of_a_session):
    world = models_of_a_session()
    async with world.serving():
        text = "x" * (3 << 20) + "[[text:read]]"
        assert b"read" in (await world.ask(text)).body
        reply = await world.raw(world.head("POST", None, f"Content-Length: {64 << 20}"))
        assert reply.status == 413
    assert len(world.fake.requests) == 1


async def test_what_counts_tokens_passes_without_costing_any(models_of_a_session):
    world = models_of_a_session("claude")
    async with world.serving():
        reply = await world.ask("hi", path="/v1/messages/count_tokens?beta=true")
        assert json.loads(reply.body) == {"input_tokens": 10}
        await until(lambda: world.row().provider_invocations == 1)
    assert world.row().input_tokens == 0


@EVERY
async def test_a_cut_stream_is_passed_on_cut_and_counted_by_its_length(models_of_a_session, provider):
    world = models_of_a_session(provider)
    async with world.serving():
        reply = await world.ask(f"[[cut:{'word ' * 100}]]")
        assert (reply.status, reply.whole) == (200, False)
        assert b"word" in reply.body
        await until(lambda: world.row().provider_invocations == 1)
    assert world.row().output_tokens > 5
    [used] = usage_rows(world.app.db.reader, "2000", "model")
    assert used.estimated == used.input_tokens + used.output_tokens


@EVERY
async def test_too_many_requests_at_the_provider_are_passed_on(models_of_a_session, provider):
    world = models_of_a_session(provider)
    async with world.serving():
        reply = await world.ask("[[status:429 7]]")
    assert (reply.status, reply.headers["retry-after"]) == (429, "7")
    assert reply.error == "scripted 429"


async def test_nonsense_of_a_provider_is_passed_on_as_it_is(models_of_a_session):
    world = models_of_a_session()
    async with world.serving():
        assert (await world.ask("[[broken]]")).body == b'{"choices": ['
        reply = await world.ask("[[html]]")
        assert reply.headers["content-type"].startswith("text/plain")
        await until(lambda: world.row().provider_invocations == 2)
    assert world.row().output_tokens > 0  # estimated


async def test_a_caller_that_hangs_up_pays_for_what_it_got(models_of_a_session):
    world = models_of_a_session()
    async with world.serving():
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        writer.write(world.request(question("codex", "x" * 4000 + "[[slow:600]]")))
        await until(lambda: world.fake.requests)
        writer.close()
        del reader
        await until(lambda: world.proxy._slots._value == 8)
        assert not world.proxy._reserved
    row = world.row()
    assert (row.provider_invocations, row.input_tokens > 1000) == (1, True)  # it was asked, and takes money for that


@pytest.mark.parametrize("stop", ["pause", "estop", "end"])
async def test_a_stream_ends_with_a_pause_with_estop_and_with_the_session(models_of_a_session, stop):
    world = models_of_a_session()
    async with world.serving():
        asked = asyncio.ensure_future(world.ask("[[slow:600]]"))
        await until(lambda: world.fake.requests)
        match stop:
            case "pause":
                world.move("PAUSED_BY_HUMAN")
            case "estop":
                world.app.estop.file.write_text("stop")
            case _:
                world.move("STOPPING")
        assert (await asked).status == 0
        again = await world.ask("more")
        assert again.status == {"pause": 503}.get(stop, 400)
    assert len(world.fake.requests) == 1


@EVERY
@pytest.mark.parametrize("budget", ["session", "day", "month"])
async def test_at_a_limit_the_program_and_the_session_are_told_why(models_of_a_session, provider, budget):
    world = models_of_a_session(provider)
    match budget:
        case "session":
            world.set("runner", session_tokens=12)
        case "day":
            world.set("budgets", daily_tokens=12)
        case _:
            world.set("plans", enterprise=type(world.app.config.plans.enterprise)(tokens_per_month=12))
    async with world.serving():
        small = {"contents": []} if provider == "gemini" else {"model": "m"}
        first = await world.raw(world.request(small))
        assert first.status in (200, 400)
        if first.status == 400:  # what the fake itself refuses costs nothing
            world.app.db.write_now(lambda tx: _use(world, tx))
        await until(lambda: world.row().input_tokens)
        before = len(world.fake.requests)
        for _ in range(2):
            reply = await world.ask()
            assert (reply.status, "tokens" in reply.error) == (400, True)
    assert len(world.fake.requests) == before
    told = [tick["limit"] for tick in world.ticks() if "limit" in tick]
    assert len(told) == 1
    assert {"session": "session_tokens", "day": "daily_tokens", "month": "tokens_per_month"}[budget] in told[0]


def _use(world, tx):
    from coilclaw.features.runner.store import Units, tick
    from coilclaw.store.usage import add_usage

    add_usage(
        tx, world.app.clock, thread_id="t", turn_id="t", job_id=None, provider="p", model="m", input_tokens=10,
        output_tokens=5, estimated=False,
    )  # fmt: skip
    tick(tx, world.app.clock, world.session_id, called=Units(input_tokens=10, output_tokens=5))


async def test_a_model_without_a_price_is_said_to_have_none(models_of_a_session):
    world = models_of_a_session()
    world.app.config.prices.clear()
    async with world.serving():
        await world.ask("hi")
        await until(lambda: world.row().provider_invocations == 1)
    assert (world.row().cost_millionths, world.row().unpriced_tokens) == (0, 15)


async def test_without_a_key_or_a_provider_the_program_is_told_what_to_do(models_of_a_session):
    world = models_of_a_session("gemini")
    async with world.serving():
        models = world.app.config.providers.models
        chosen = models.pop("theirs")
        assert "kind google" in (await world.ask()).error
        models["theirs"] = msgspec.structs.replace(chosen, api_key_env="NO_SUCH_KEY")
        assert "coilclaw secret set NO_SUCH_KEY" in (await world.ask()).error
    assert world.fake.requests == []


async def test_the_chosen_provider_answers(models_of_a_session):
    from coilclaw.config.runner import SessionModels

    world = models_of_a_session()
    world.set("runner", models=SessionModels(codex="local"))
    async with world.serving():
        assert "local is not a provider of its kind" in (await world.ask()).error
        world.set("runner", models=SessionModels(codex="theirs"))
        assert (await world.ask()).status == 200
