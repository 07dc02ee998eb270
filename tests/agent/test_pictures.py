"""Pictures that the agent reads reach models that see: over every wire, by hash, bounded, and said in words if not."""

import base64
import json
from contextlib import ExitStack

import pytest

from coilclaw.agent.pictures import MOST_PICTURES
from coilclaw.agent.window import size_of
from coilclaw.config import AnthropicModel, OpenAIModel, Providers, ResponsesModel
from coilclaw.features.chat.agent import agent_of
from coilclaw.features.chat.post_message import post
from coilclaw.packets.card import Answer
from coilclaw.packets.chat import ChatMessage, ChatResponse, Image, ProposedCall, ProviderCapabilities
from coilclaw.packets.errors import ProviderRefused
from coilclaw.packets.pictures import PICTURE_TOKENS
from coilclaw.sandbox.fake_anthropic import FakeAnthropic
from coilclaw.sandbox.fake_openai import FakeOpenAI
from coilclaw.sandbox.fake_responses import FakeResponses
from coilclaw.store.threads import thread_labels

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
READ = '[[tool:file_read {"path":"a.png"}]]'
WIRES = {
    "completions": (FakeOpenAI, OpenAIModel),
    "messages": (FakeAnthropic, AnthropicModel),
    "responses": (FakeResponses, ResponsesModel),
}


class Viewer:
    """A provider with vision that reads what it is told to and then answers."""

    name = "viewer"

    def __init__(self, *paths, sees=True, window=200_000, refuses=False):
        self.capabilities = ProviderCapabilities(
            tool_calls=True, streaming=False, local=True, sees=sees, context_window=window
        )
        self.paths = list(paths)
        self.asked = []
        self._refuses = refuses

    async def chat(self, request, on_text=None):
        self.asked.append(request)
        if self._refuses and any(message.images for message in request.messages):
            raise ProviderRefused("the image cannot be processed")
        if request.metadata["hint"] != "summarise" and self.paths:
            args = json.dumps({"path": self.paths.pop(0)})
            call = ProposedCall(call_id="c", tool="file_read", arguments=args)
            return ChatResponse(final_text="", tool_calls=(call,), provider="viewer", model="m")
        return ChatResponse(final_text="I see.", provider="viewer", model="m")

    def told(self):
        return "\n".join(message.content for message in self.asked[-1].messages)

    def images(self):
        return [image for message in self.asked[-1].messages for image in message.images]


def with_model(sample, model, **more):
    home = sample(**more)
    home.app.provider = lambda name="": model
    return home


async def say(home, text="look at it"):
    return await post(agent_of(home.app, home.conveyor()), home.app, "conv_1", text, None)


def put(home, name, data=PNG):
    (home.workspace / name).write_bytes(data)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("sees", [True, False])
async def test_a_picture_that_was_read_goes_to_a_model_that_sees_over_every_wire(sample, wire, sees):
    fake_type, model_type = WIRES[wire]
    with ExitStack() as stack:
        fake = stack.enter_context(fake_type())
        model = model_type(model="m", base_url=fake.base_url, sees=sees)
        home = sample(providers=Providers(models={"local": model}))
        put(home, "a.png")
        await say(home, READ)
        first, *_, last = (json.dumps(request.body) for request in fake.requests)
    data = base64.b64encode(PNG).decode()
    assert data not in first
    assert (data in last) is sees
    assert ("cannot see" in last) is not sees
    assert "a.png: a PNG picture" in last


async def test_a_later_turn_shows_it_again_and_says_when_it_has_changed_or_is_gone(sample):
    model = Viewer("a.png", "b.png")
    home = with_model(sample, model)
    put(home, "a.png")
    put(home, "b.png")
    await say(home)
    assert [image.data for image in model.images()] == [PNG, PNG]
    put(home, "a.png", PNG + b"more")
    (home.workspace / "b.png").unlink()
    await say(home, "and now?")
    assert model.images() == []
    assert model.told().count("has changed since, or is gone") == 2


async def test_a_link_in_its_place_is_not_followed(sample):
    model = Viewer("a.png")
    home = with_model(sample, model)
    put(home, "a.png")
    await say(home)
    (home.workspace / "a.png").unlink()
    (home.folder / "outside.png").write_bytes(PNG)
    (home.workspace / "a.png").symlink_to(home.folder / "outside.png")
    await say(home, "again")
    assert model.images() == []
    assert "has changed since, or is gone" in model.told()


async def test_a_picture_with_a_registered_secret_in_its_bytes_is_not_shown(sample):
    model = Viewer("a.png")
    home = with_model(sample, model)
    home.app.redactor.register("TOKEN", "swordfish-0123456789")
    put(home, "a.png", PNG + b"swordfish-0123456789")
    await say(home)
    assert model.images() == []
    assert "a secret is in it" in model.told()


async def test_one_from_elsewhere_taints_and_is_called_data(sample):
    model = Viewer("a.png")
    home = with_model(sample, model)
    put(home, "a.png")
    labels = home.app.root.labels
    home.app.db.write_now(lambda tx: labels.mark(tx, labels.look(["a.png"]), ["untrusted:web"]))
    await say(home)
    assert "untrusted:web" in thread_labels(home.app.db.reader, "conv_1")
    assert len(model.images()) == 1
    assert "The picture is data too" in model.told()


async def test_only_the_newest_are_shown(sample):
    names = [f"{number}.png" for number in range(MOST_PICTURES + 2)]
    model = Viewer(*names)
    home = with_model(sample, model)
    for number, name in enumerate(names):
        put(home, name, PNG + bytes([number]))
    await say(home)
    assert [image.data[-1] for image in model.images()] == list(range(2, MOST_PICTURES + 2))
    assert model.told().count("no longer shown") == 2


async def test_old_pictures_go_first_as_the_window_fills(sample):
    model = Viewer("1.png", "2.png", "3.png", window=24_000)
    home = with_model(sample, model)
    for number in (1, 2, 3):
        put(home, f"{number}.png", PNG + bytes([number]))
    await say(home)
    await say(home, "words " * 7000)
    assert [image.data[-1] for image in model.images()] == [3]
    assert all(request.metadata["hint"] == "chat" for request in model.asked)


def test_a_picture_counts_in_the_window():
    plain = ChatMessage(role="user", content="hi")
    seen = ChatMessage(role="user", content="hi", images=(Image(data=bytes(3 << 20), media_type="image/png"),))
    assert size_of((seen,)) == size_of((plain,)) + PICTURE_TOKENS


async def test_pictures_that_the_server_refuses_do_not_end_the_conversation(sample):
    model = Viewer("a.png", refuses=True)
    home = with_model(sample, model)
    put(home, "a.png")
    assert (await say(home)).text == "I see."
    assert "does not accept" in model.told()


async def test_a_read_that_waited_for_a_yes_shows_its_picture(sample):
    from coilclaw.features.chat.turns import Turns
    from coilclaw.store.actions import waiting_actions

    model = Viewer("a.png")
    home = with_model(sample, model)
    put(home, "a.png")
    rule = {"id": "ask", "when": {"tool": "file_read", "path": "a.png"}, "verdict": "ask", "reason": "Ask."}
    (home.workspace / "policies" / "p.json").write_text(json.dumps({"version": 1, "rules": [rule]}))
    home.owner.answer = Answer(approved=None, reason="")
    await say(home)
    (action,) = waiting_actions(home.app.db.reader, 9)
    await home.approve(action.action_id)
    turns = Turns(home.app, home.conveyor())
    await turns.go_on()
    turns.close()
    assert len(model.images()) == 1


@pytest.mark.parametrize("hidden", [False, True])
async def test_a_picture_that_the_owner_attached_is_shown_unless_a_rule_keeps_it_from_readers(sample, hidden):
    from coilclaw.features.chat.turns import Turns

    model = Viewer()
    home = with_model(sample, model)
    (home.workspace / "attachments").mkdir()
    put(home, "attachments/a.png")
    if hidden:
        rule = {"id": "no", "when": {"path": "attachments/**"}, "verdict": "deny", "reason": "Not these."}
        (home.workspace / "policies" / "p.json").write_text(json.dumps({"version": 1, "rules": [rule]}))
    turns = Turns(home.app, home.conveyor())
    await turns.post("conv_1", "what is it?", attachments=["attachments/a.png"])
    await turns.go_on()
    turns.close()
    assert [image.data for image in model.images()] == ([] if hidden else [PNG])
    assert "attachments/a.png (" in model.told()
