"""A hostile program at its model listener, and a hostile provider behind it."""

import asyncio
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from coilclaw.features.runner import model_http
from coilclaw.features.runner.model_proxy import ModelProxy
from tests.features.runner.model_world import KEY, question, read_reply
from tests.features.runner.session_world import until

EVERY = pytest.mark.parametrize("provider", ["codex", "claude", "gemini"])
HELLO = json.dumps(question("codex")).encode()
CL = f"Content-Length: {len(HELLO)}"
HIDDEN = b"POST /v1/responses HTTP/1.1\r\nHost: x\r\n\r\n"

SMUGGLED = {
    "two lengths": lambda w: w.head("POST", None, CL, "Content-Length: 5") + HELLO,
    "the same length twice": lambda w: w.head("POST", None, CL, CL) + HELLO,
    "a list of lengths": lambda w: w.head("POST", None, f"{CL}, {len(HELLO)}") + HELLO,
    "length and chunks": lambda w: w.head("POST", None, CL, "Transfer-Encoding: chunked") + b"0\r\n\r\n" + HIDDEN,
    "chunks twice": lambda w: w.head("POST", None, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
    "another coding": lambda w: w.head("POST", None, "Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n",
    "a signed length": lambda w: w.head("POST", None, f"Content-Length: +{len(HELLO)}") + HELLO,
    "a hexadecimal length": lambda w: w.head("POST", None, "Content-Length: 0x10") + HELLO,
    "space before the colon": lambda w: w.head("POST", None, f"Content-Length : {len(HELLO)}") + HELLO,
    "a folded header": lambda w: w.head("POST", None, CL, "X-A: b", " folded") + HELLO,
    "bare line feeds": lambda w: w.head("POST", None, CL).replace(b"\r\n", b"\n") + HELLO + b"\r\n\r\n",
    "a bare line feed in a header": lambda w: w.head("POST", None, CL, "X-A: b\nX-C: d") + HELLO,
    "a null": lambda w: w.head("POST", None, CL, "X-A: \0") + HELLO,
    "a bare line feed after a chunk's size": lambda w: (
        w.head("POST", None, "Transfer-Encoding: chunked") + b"%x\n%s\r\n0\r\n\r\n" % (len(HELLO), HELLO)
    ),
    "a chunk extension": lambda w: (
        w.head("POST", None, "Transfer-Encoding: chunked") + b"%x;a=b\r\n%s\r\n0\r\n\r\n" % (len(HELLO), HELLO)
    ),
    "a chunk longer than it says": lambda w: (
        w.head("POST", None, "Transfer-Encoding: chunked") + b"%x\r\n%s\r\n0\r\n\r\n" % (len(HELLO) - 1, HELLO)
    ),
    "trailers": lambda w: (
        w.head("POST", None, "Transfer-Encoding: chunked") + b"%x\r\n%s\r\n0\r\nX-A: b\r\n\r\n" % (len(HELLO), HELLO)
    ),
    "a body of a GET": lambda w: w.head("GET", "/v1/models", CL) + HELLO,
    "an older version": lambda w: w.head("POST", None, CL).replace(b"HTTP/1.1", b"HTTP/1.0") + HELLO,
    "a compressed body": lambda w: w.head("POST", None, CL, "Content-Encoding: gzip") + HELLO,
    "two hosts": lambda w: w.head("POST", None, CL, "Host: evil.example") + HELLO,
    "another host": lambda w: w.head("POST", None, CL, host="evil.example") + HELLO,
    "no host": lambda w: w.head("POST", None, CL).replace(b"Host:", b"Most:") + HELLO,
    "another port": lambda w: w.head("POST", None, CL, host="127.0.0.1:80") + HELLO,
    "a huge header": lambda w: w.head("POST", None, CL, "X-A: " + "b" * 40_000) + HELLO,
    "many headers": lambda w: w.head("POST", None, CL, *(f"X-{n}: b" for n in range(150))) + HELLO,
    "an unknown expectation": lambda w: w.head("POST", None, CL, "Expect: more") + HELLO,
    "TLS": lambda w: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
}


@pytest.mark.parametrize("name", [*SMUGGLED])
async def test_what_two_programs_could_read_differently_is_refused(models_of_a_session, name):
    world = models_of_a_session()
    async with world.serving():
        reply = await world.raw(SMUGGLED[name](world))
        assert 400 <= reply.status < 500, name
        assert sum(world.proxy.refused.values()) == 1
        assert (await world.ask()).status == 200
    assert len(world.fake.requests) == 1


TARGETS = {
    "an absolute address": ("POST", "http://evil.example/v1/responses"),
    "an absolute address of its own": ("POST", "http://127.0.0.1/v1/responses"),
    "a tunnel": ("CONNECT", "evil.example:443"),
    "a tunnel by path": ("CONNECT", "/v1/responses"),
    "everything": ("OPTIONS", "*"),
    "two slashes": ("POST", "//evil.example/v1/responses"),
    "a step up": ("POST", "/v1/../v1/responses"),
    "a step up to another endpoint": ("POST", "/v1/responses/../files"),
    "an encoded step up": ("POST", "/v1/%2e%2e/v1/responses"),
    "an encoded slash": ("POST", "/v1%2fresponses"),
    "an encoded letter": ("POST", "/v1/response%73"),
    "a trailing slash": ("POST", "/v1/responses/"),
    "a query": ("POST", "/v1/responses?beta=true"),
    "a fragment": ("POST", "/v1/responses#a"),
    "a stored response": ("GET", "/v1/responses/resp_1"),
    "files": ("POST", "/v1/files"),
    "another wire": ("POST", "/v1/messages"),
    "images": ("POST", "/v1/images/generations"),
    "the key's owner": ("GET", "/v1/organization/api_keys"),
    "deleting": ("DELETE", "/v1/responses"),
    "putting": ("PUT", "/v1/responses"),
    "getting what is posted": ("GET", "/v1/responses"),
    "a look": ("HEAD", "/"),
    "another query of models": ("GET", "/v1/models?client_version=1&key=2"),
    "a tab": ("POST", "/v1/responses\t"),
}


@pytest.mark.parametrize("name", [*TARGETS])
async def test_nothing_but_the_endpoints_of_the_wire_is_there(models_of_a_session, name):
    method, path = TARGETS[name]
    world = models_of_a_session()
    async with world.serving():
        more = (CL,) if method in ("POST", "PUT") else ()
        reply = await world.raw(world.head(method, path, *more) + (HELLO if more else b""))
        assert reply.status in (400, 404, 405), name
        assert sum(world.proxy.refused.values()) == 1
        assert (await world.ask()).status == 200
        await until(lambda: world.row().provider_invocations == 1)
    assert len(world.fake.requests) == 1
    assert sum(world.ticks()[-1]["refused"].values()) == 1


@pytest.mark.parametrize(
    "path",
    [
        "/v1beta/models/..:generateContent",
        "/v1beta/models/a/../b:generateContent",
        "/v1beta/models/a%2f..:generateContent",
        "/v1beta/models/m:streamGenerateContent",
        "/v1beta/models/m:streamGenerateContent?alt=sse&key=mine",
        "/v1beta/models/m:generateContent?key=mine",
        "/v1beta/models/m:embedContent",
        "/v1beta/tunedModels/m:generateContent",
        "/v1beta/models/m:{}:generateContent",
        "/v1beta/cachedContents",
        "/v1/models/m:generateContent",
    ],
)
async def test_a_models_name_is_a_name(models_of_a_session, path):
    world = models_of_a_session("gemini")
    async with world.serving():
        assert (await world.ask(path=path)).status == 404
    assert world.fake.requests == []


FETCHED = {
    "a picture by its address": (
        "codex",
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://evil.example/?s"}]}]},
    ),
    "a picture of a result": (
        "codex",
        {
            "input": [
                {
                    "type": "function_call_output",
                    "call_id": "c",
                    "output": [{"type": "input_image", "image_url": "http://evil.example"}],
                }
            ]
        },
    ),
    "a file by its address": (
        "codex",
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "https://evil.example"}]}]},
    ),
    "a stored file": ("codex", {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]}),
    "another session's item": ("codex", {"input": [{"type": "item_reference", "id": "msg_1"}]}),
    "tools found on the way": ("codex", {"input": [{"type": "tool_search_output", "tools": [{"type": "mcp"}]}]}),
    "an item that is none": ("codex", {"input": ["x"]}),
    "Claude's picture": (
        "claude",
        {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://e"}}]}]},
    ),
    "Claude's document in a result": (
        "claude",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "content": [{"type": "document", "source": {"type": "url", "url": "https://e"}}],
                        }
                    ],
                }
            ]
        },
    ),
    "Claude's stored file": (
        "claude",
        {"messages": [{"role": "user", "content": [{"type": "container_upload", "file_id": "f"}]}]},
    ),
    "Gemini's file": (
        "gemini",
        {"contents": [{"role": "user", "parts": [{"fileData": {"fileUri": "https://evil.example/?s"}}]}]},
    ),
    "Gemini's file in its other spelling": (
        "gemini",
        {"contents": [{"role": "user", "parts": [{"file_data": {"file_uri": "https://evil.example"}}]}]},
    ),
    "Gemini's file in a result": (
        "gemini",
        {"contents": [{"role": "user", "parts": [{"functionResponse": {"name": "a", "parts": [{"fileData": {}}]}}]}]},
    ),
}


@pytest.mark.parametrize("name", [*FETCHED])
async def test_a_provider_fetches_nothing_for_a_box(models_of_a_session, name):
    provider, body = FETCHED[name]
    world = models_of_a_session(provider)
    async with world.serving():
        reply = await world.ask(**body)
        assert (reply.status, "would fetch it" in reply.error) == (400, True)
    assert world.fake.requests == []


HOSTED = {
    "codex": (
        [
            {"type": "web_search"},
            {"type": "mcp", "server_url": "https://evil.example"},
            {"type": "code_interpreter", "container": {"type": "auto"}},
            {"type": "shell", "environment": {"type": "container_auto"}},
            {"type": "namespace", "name": "n", "tools": [{"type": "mcp"}, {"type": "function", "name": "inner"}]},
            {"type": "function", "name": "mine"},
        ],
        [
            {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "inner"}]},
            {"type": "function", "name": "mine"},
        ],
    ),
    "claude": (
        [
            {"type": "web_search_20250305", "name": "web_search"},
            {"type": "web_fetch_20250910", "name": "web_fetch"},
            {"type": "code_execution_20250825", "name": "code"},
            {"type": "mcp_toolset", "mcp_server_name": "evil"},
            {"type": "bash_20250124", "name": "bash"},
            {"name": "mine", "input_schema": {}},
        ],
        [{"type": "bash_20250124", "name": "bash"}, {"name": "mine", "input_schema": {}}],
    ),
    "gemini": (
        [
            {"googleSearch": {}},
            {"url_context": {}},
            {"codeExecution": {}},
            {"functionDeclarations": [{"name": "mine"}], "googleSearch": {}},
        ],
        [{"functionDeclarations": [{"name": "mine"}]}],
    ),
}
LEFT_OUT = {
    "codex": {"previous_response_id": "resp_1", "conversation": "c", "background": True, "prompt": {"id": "p"}},
    "claude": {"mcp_servers": [{"type": "url", "url": "https://e"}], "container": "c", "service_tier": "priority"},
    "gemini": {"cachedContent": "cachedContents/another"},
}


@EVERY
async def test_hosted_tools_and_unknown_fields_stay_in_the_box(models_of_a_session, provider):
    world = models_of_a_session(provider)
    given, kept = HOSTED[provider]
    async with world.serving():
        more = {"store": True} if provider == "codex" else {}
        assert (await world.ask(tools=given, **LEFT_OUT[provider], **more)).status == 200
    [seen] = world.fake.requests
    assert seen.body["tools"] == kept
    assert set(seen.body) & set(LEFT_OUT[provider]) == set()
    assert seen.body.get("store", False) is False


async def test_a_field_that_comes_twice_leaves_once(models_of_a_session):
    world = models_of_a_session()
    twice = b'{"tools": [{"type": "web_search"}], "input": [], "tools": [], "previous_response_id": "a"}'
    async with world.serving():
        assert (await world.raw(world.request(twice))).status == 200
    assert set(world.fake.requests[0].body) == {"input", "store"}


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"a": ' + b"[" * 100_000, b'{"a": "\\ud800"}', b"7"])
async def test_a_body_that_is_no_object_stays_in_the_box(models_of_a_session, body):
    world = models_of_a_session()
    async with world.serving():
        assert (await world.raw(world.request(body))).status == 400
    assert world.fake.requests == []


async def test_a_body_of_a_million_parts_is_not_read(models_of_a_session):
    world = models_of_a_session()
    async with world.serving():
        body = b'{"input": [' + b"[]," * 900_000 + b"[]]}"
        assert (await world.raw(world.request(body))).status == 413


async def test_arguments_of_calls_are_data_of_any_shape(models_of_a_session):
    world = models_of_a_session("claude")
    use = {"type": "tool_use", "id": "t", "name": "n", "input": {"source": {"type": "url"}, "file_id": "f"}}
    said = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    async with world.serving():
        assert (await world.ask(messages=said)).status == 200
    assert world.fake.requests[0].body["messages"] == said


async def test_headers_towards_the_provider_are_ours(models_of_a_session):
    world = models_of_a_session("claude")
    async with world.serving():
        own = (
            "anthropic-version: 2023-06-01",
            "anthropic-beta: a-1,b-2",
            "X-Forwarded-For: 1.2.3.4",
            "Connection: keep-alive, x-api-key",
        )
        assert (await world.ask("hi", *own)).status == 200
        assert (await world.ask("hi", "anthropic-beta: x\x80y: z", "anthropic-version: 1, x: y")).status == 200
    first, second = (each.headers for each in world.fake.requests)
    assert (first["anthropic-beta"], first["x-api-key"]) == ("a-1,b-2", KEY)
    assert "x-forwarded-for" not in first
    assert ("anthropic-beta" in second, second["anthropic-version"]) == (False, "2023-06-01")


# Slow and many


async def test_a_slow_body_is_given_up(models_of_a_session, monkeypatch):
    monkeypatch.setattr(model_http, "BODY_SECONDS", 0.2)
    world = models_of_a_session()
    async with world.serving():
        assert (await world.raw(world.head("POST", None, CL) + HELLO[:5])).status == 408


async def test_a_slow_head_is_given_up(models_of_a_session, monkeypatch):
    monkeypatch.setattr(model_http, "HEAD_SECONDS", 0.2)
    world = models_of_a_session()
    async with world.serving():
        assert (await world.raw(b"POST /v1/responses HT")).status == 0


async def test_a_body_in_tiny_chunks_is_given_up(models_of_a_session):
    world = models_of_a_session()
    async with world.serving():
        reply = await world.raw(world.head("POST", None, "Transfer-Encoding: chunked") + b"1\r\nx\r\n" * 10_000)
        assert (reply.status, "too many" in reply.error) == (400, True)


async def test_calls_beyond_the_limit_wait_unread(models_of_a_session):
    world = models_of_a_session()
    async with world.serving():
        made = []
        for _ in range(12):
            reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
            writer.write(world.request(question("codex", "[[slow:600]]")))
            made.append((reader, writer))
        await until(lambda: len(world.fake.requests) == 8)
        assert world.proxy._slots.locked()
        for _, writer in made[:8]:
            writer.close()
        await until(lambda: len(world.fake.requests) == 12)
        for _, writer in made:
            writer.close()
        await until(lambda: not world.proxy._reserved)


async def test_a_session_that_calls_without_a_pause_is_slowed(models_of_a_session):
    world = models_of_a_session()
    async with world.serving():
        found = set()
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        for _ in range(121):
            writer.write(world.head("GET", "/v1/models"))
            found.add((await read_reply(reader)).status)
        writer.close()
        for _ in range(5):
            assert (await world.raw(world.head("GET", "/v1/models"))).status == 429
    assert found == {200, 429}
    assert len(world.fake.requests) == len(world.proxy._recent) == 120


async def test_running_calls_count_before_their_answers_do(models_of_a_session):
    world = models_of_a_session(session_tokens=10_000)
    async with world.serving():
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        writer.write(world.request(question("codex", "x" * 30_000 + "[[slow:600]]")))
        await until(lambda: world.fake.requests)
        assert "budget of 10000 tokens" in (await world.ask("x" * 30_000)).error
        writer.close()
        del reader


# The other sessions


async def test_a_session_uses_its_own_budget_whatever_it_says(models_of_a_session):
    world = models_of_a_session(session_tokens=12)
    world.add_session("ses_2")
    async with world.serving():
        claims = ("X-Session-Id: ses_2", "session_id: ses_2", "Authorization: Bearer ses_2")
        tiny = json.dumps({"model": "m"}).encode()
        length = f"Content-Length: {len(tiny)}"
        assert (await world.raw(world.head("POST", None, length, *claims) + tiny)).status == 200
        await until(lambda: world.row().provider_invocations == 1)
        assert (await world.raw(world.head("POST", None, length, *claims) + tiny)).status == 400
        assert world.row("ses_2").provider_invocations == 0
        other = ModelProxy(world.app, world.row("ses_2"))
        world.proxy = other
        assert (await world.raw(world.head("POST", None, length) + tiny)).status == 200


# The provider


class Hostile:
    """A provider that answers with prepared bytes, and a place that its redirects lead to."""

    def __init__(self, make):
        self.seen = []
        outer = self

        class Answers(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_POST(self):
                length = int(self.headers.get("Content-Length") or 0)
                self.rfile.read(length)
                outer.seen.append((self.path, dict(self.headers)))
                make(self)

            do_GET = do_POST  # noqa: N815

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.base_url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def _send(handler, status, body=b"", **headers):
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_redirect_is_not_followed_and_takes_no_key_along(models_of_a_session, status, method):
    elsewhere = Hostile(lambda handler: _send(handler, 200, b"{}"))
    fake = Hostile(lambda handler: _send(handler, status, Location=f"{elsewhere.base_url}/x?key={KEY}"))
    world = models_of_a_session(fake=fake)
    try:
        async with world.serving():
            asked = world.head("GET", "/v1/models") if method == "GET" else world.request(question("codex"))
            reply = await world.raw(asked)
            assert (reply.status, "location" in reply.headers, KEY.encode() in reply.body) == (502, False, False)
        assert (len(fake.seen), elsewhere.seen) == (1, [])
    finally:
        elsewhere.stop()


@EVERY
async def test_an_error_that_repeats_the_key_does_not_bring_it_in(models_of_a_session, provider):
    world = models_of_a_session(provider)
    async with world.serving():
        reply = await world.ask("[[status:401]]")
        assert (reply.status, KEY.encode() in reply.body) == (401, False)
        assert "[api key]" in reply.error


async def test_a_stream_and_headers_that_repeat_the_key_do_not_bring_it_in(models_of_a_session):
    def told(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("X-Request-Id", f"a-{KEY}")
        handler.send_header("Set-Cookie", "a=b")
        handler.end_headers()
        for piece in (f"data: a{KEY}b sk", f"-live y {KEY[:9]}", f"{KEY[9:]} z", f"{KEY[:5]}\n\n"):
            handler.wfile.write(piece.encode())
            handler.wfile.flush()
            told.gate.wait(0.05)

    told.gate = threading.Event()
    world = models_of_a_session(fake=Hostile(told))
    async with world.serving():
        reply = await world.ask()
    assert reply.body == f"data: a[api key]b sk-live y [api key] z{KEY[:5]}\n\n".encode()
    assert set(reply.headers) == {"content-type", "transfer-encoding"}


async def test_the_key_is_in_no_log_event_or_row(models_of_a_session, caplog):
    world = models_of_a_session()
    async with world.serving():
        for scene in ("[[status:401]]", "[[cut:a]]", "[[html]]", "hello"):
            await world.ask(scene)
        await until(lambda: world.row().provider_invocations == 4)
    world.app.db.reader.execute("SELECT 1")
    files = [each for each in world.app.home.root.rglob("*") if each.is_file()]
    assert [each for each in files if KEY.encode() in each.read_bytes()] == []
    assert KEY not in caplog.text + str(world.sample.events)


async def test_a_provider_elsewhere_than_configured_is_not_reached(models_of_a_session):
    """The airlock decides, not the proxy: what it has not listed is not dialled."""
    elsewhere = Hostile(lambda handler: _send(handler, 200, b"{}"))
    world = models_of_a_session()
    try:
        _ = world.app.listing
        models = world.app.config.providers.models
        models["theirs"] = type(models["theirs"])(model="m", base_url=elsewhere.base_url, api_key_env="MODEL_KEY")
        async with world.serving():
            reply = await world.ask()
            assert (reply.status, "refused" in reply.error) == (502, True)
        assert elsewhere.seen == []
    finally:
        elsewhere.stop()


async def test_a_provider_that_is_not_there_is_said_so(models_of_a_session):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    world = models_of_a_session(url=url)
    async with world.serving():
        assert (await world.ask()).status == 502
    assert world.row().provider_invocations == 0


async def test_counts_that_are_nonsense_neither_lower_nor_break_the_sums(models_of_a_session):
    usage = b'{"usage": {"input_tokens": -5, "output_tokens": 99999999999999999999}, "model": "' + b"m" * 500 + b'"}'
    world = models_of_a_session(
        fake=Hostile(lambda handler: _send(handler, 200, usage, Content_Type="application/json"))
    )
    async with world.serving():
        assert (await world.ask()).status == 200
        await until(lambda: world.row().provider_invocations == 1)
    row = world.row()
    assert 0 <= row.input_tokens <= 1 << 40
    assert 0 < row.output_tokens <= 1 << 40


async def test_a_model_cannot_write_its_own_bill(models_of_a_session):
    """Text and arguments of a model that look like counts are not counted."""
    forged = json.dumps({"usageMetadata": {"promptTokenCount": 10**9}, "usage": {"input_tokens": 10**9}})
    world = models_of_a_session("gemini")
    world.fake.script = [f"[[tool:run {forged}]]"]
    async with world.serving():
        assert b"1000000000" in (await world.ask(tools=[{"functionDeclarations": [{"name": "run"}]}])).body
        await until(lambda: world.row().provider_invocations == 1)
    assert (world.row().input_tokens, world.row().output_tokens) == (10, 5)
