"""A session's model listener on a real socket, before a fake provider, in a home without boxes."""

import asyncio
import json
from contextlib import asynccontextmanager

import msgspec

from coilclaw.config import AnthropicModel, GoogleModel, Price, ResponsesModel
from coilclaw.features.runner.model_proxy import ModelProxy
from coilclaw.features.runner.spec import RepoRef, StartSession
from coilclaw.features.runner.store import add_session, events_after, load_session, move, usage_of
from coilclaw.sandbox.fake_anthropic import FakeAnthropic
from coilclaw.sandbox.fake_generate import FakeGenerate
from coilclaw.sandbox.fake_responses import FakeResponses

KEY = "sk-live-0123456789abcdefghij"
KINDS = {
    "codex": (ResponsesModel, FakeResponses, "/v1/responses"),
    "claude": (AnthropicModel, FakeAnthropic, "/v1/messages?beta=true"),
    "fake": (ResponsesModel, FakeResponses, "/v1/responses"),
    "gemini": (GoogleModel, FakeGenerate, "/v1beta/models/fake-model:streamGenerateContent?alt=sse"),
}


def question(provider, text="hello", **more):
    """A body that asks a model, as the CLI of that name sends it."""
    match provider:
        case "codex" | "fake":
            return {"model": "fake-model", "stream": True, "input": [{"role": "user", "content": text}], **more}
        case "claude":
            asked = [{"role": "user", "content": [{"type": "text", "text": text}]}]
            return {"model": "fake-model", "stream": True, "max_tokens": 100, "messages": asked, **more}
        case _:
            return {"contents": [{"role": "user", "parts": [{"text": text}]}], **more}


class Reply:
    """One answer, read strictly."""

    def __init__(self, status, headers, body, whole):
        self.status = status
        self.headers = headers
        self.body = body
        self.whole = whole

    @property
    def error(self):
        return json.loads(self.body)["error"]["message"]


async def read_reply(reader, *, head_only=False):
    """The next answer on a connection; `whole` is false when it was cut."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except (asyncio.IncompleteReadError, ConnectionError):
        return Reply(0, {}, b"", False)
    line, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in lines)}
    status, body = int(line.split()[1]), b""
    if status == 100:
        return Reply(100, headers, b"", True)
    try:
        if head_only:
            return Reply(status, headers, b"", True)
        if headers.get("transfer-encoding") != "chunked":
            return Reply(status, headers, await reader.readexactly(int(headers["content-length"])), True)
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
    except (asyncio.IncompleteReadError, ConnectionError, ValueError):
        return Reply(status, headers, body, False)
    return Reply(status, headers, body, True)


class ModelWorld:
    """One session of a provider, and the fake that answers it."""

    def __init__(self, sample, provider="codex", fake=None, url="", **runner):
        self.provider = provider
        kind, fakes, self.path = KINDS[provider]
        self.fake = fake or fakes(api_key=KEY).start()
        self.sample = sample(environ={"MODEL_KEY": KEY})
        self.app = app = self.sample.app
        model = kind(model="fake-model", base_url=url or self.fake.base_url, api_key_env="MODEL_KEY")
        providers = msgspec.structs.replace(
            app.config.providers, models={"theirs": model, **app.config.providers.models}
        )
        app.config = msgspec.structs.replace(
            app.config,
            providers=providers,
            prices={"fake-model": Price(input_per_million=10.0, cached_per_million=1.0, output_per_million=100.0)},
            runner=msgspec.structs.replace(app.config.runner, **runner),
        )
        self.session_id = self.add_session("ses_1")
        self.proxy = ModelProxy(app, self.row())
        self.port = 0

    def add_session(self, session_id, org_id="self"):
        spec = StartSession(repo=RepoRef(name="site"), provider=self.provider, org_id=org_id)

        def write(tx):
            add_session(tx, self.app.clock, session_id, spec, action_id="act_1", by="test")
            for state in ("PREPARING_WORKSPACE", "STARTING_PROVIDER", "RUNNING"):
                move(tx, self.app.clock, session_id, state)

        self.app.db.write_now(write)
        return session_id

    def set(self, part, **fields):
        changed = msgspec.structs.replace(getattr(self.app.config, part), **fields)
        self.app.config = msgspec.structs.replace(self.app.config, **{part: changed})

    def row(self, session_id="ses_1"):
        return load_session(self.app.db.reader, session_id)

    def ticks(self):
        return [
            each.data for each in events_after(self.app.db.reader, self.row(), 0, 1000) if each.type == "USAGE_TICK"
        ]

    def month(self):
        return usage_of(self.app.db.reader)

    def move(self, state):
        self.app.db.write_now(lambda tx: move(tx, self.app.clock, self.session_id, state) and None)

    @asynccontextmanager
    async def serving(self):
        tasks = set()

        async def serve(reader, writer):
            tasks.add(asyncio.current_task())
            try:
                await self.proxy.serve(self.port, reader, writer)
            finally:
                tasks.discard(asyncio.current_task())
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in list(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def head(self, method="POST", path=None, *more, host=None):
        lines = [f"{method} {path or self.path} HTTP/1.1", f"Host: {host or f'127.0.0.1:{self.port}'}", *more]
        return "\r\n".join((*lines, "", "")).encode()

    async def raw(self, data, *, eof=False):
        """The first answer to these bytes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            if eof:
                writer.write_eof()
            async with asyncio.timeout(280):
                return await read_reply(reader, head_only=data.startswith(b"HEAD "))
        finally:
            writer.close()

    def request(self, body, *more, path=None):
        data = json.dumps(body).encode() if not isinstance(body, bytes) else body
        return self.head("POST", path, f"Content-Length: {len(data)}", *more) + data

    async def ask(self, text="hello", *more, path=None, **fields):
        """Ask the model."""
        return await self.raw(self.request(question(self.provider, text, **fields), *more, path=path))

    def close(self):
        self.fake.stop()
