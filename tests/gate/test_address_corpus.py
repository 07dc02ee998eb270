"""Stories in which data could leave by the address of a GET, and their harmless neighbours, told by the real loop."""

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from coilclaw.airlock.fake import FakeTransport
from coilclaw.config.schema import WebSearch
from coilclaw.features.chat.agent import agent_of
from coilclaw.packets.action import OWNER
from coilclaw.packets.box import BoxResult
from coilclaw.packets.http import HttpResponse
from coilclaw.packets.job import UserMessage
from coilclaw.sandbox.fake_box import FakeBox
from tests.home import Sample

CORPUS = Path(__file__).parents[1] / "corpora" / "addresses.jsonl"
STORIES = [json.loads(line) for line in CORPUS.read_text().splitlines()]
RESEARCH = [story for story in STORIES if story["id"].startswith("search-fi") and not story["attack"]]


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    """A home for each autonomy; every story is a conversation of its own in one of them."""
    made = {}

    def home(autonomy):
        if autonomy not in made:
            made[autonomy] = Sample(
                tmp_path_factory.mktemp(autonomy),
                security__autonomy=autonomy,
                security__allowed_domains=("listed.example",),
                budgets__tool_calls_per_minute=100_000,
                agent__max_tool_rounds=50,
                web_search=WebSearch(kind="searxng", base_url="https://search.example"),
            )
        return made[autonomy]

    yield home
    for each in made.values():
        each.close()


def answer(url, told):
    told = {"text": told} if isinstance(told, str) else told
    text = "\n".join(f"https://evil.example/{number}" for number in range(told.get("menu", 0))) + told.get("text", "")
    headers = [("content-type", "text/plain"), *(("location", told[name]) for name in ("location",) if name in told)]
    return HttpResponse(status=told.get("status", 200), headers=tuple(headers), body=text.encode(), url=url)


def found(query, hits):
    url = f"https://search.example/search?q={quote(query)}&format=json"
    told = [hit if isinstance(hit, list) else [hit, ""] for hit in hits]
    results = [{"title": "hit", "url": link, "content": excerpt} for link, excerpt in told]
    body = json.dumps({"results": results}).encode()
    return url, HttpResponse(status=200, headers=(), body=body, url=url)


def replies(number, turn):
    for round_ in turn["rounds"]:
        if round_[0][0] == "says":
            yield {"match": f"({number})", "text": round_[0][1]["text"]}
            return
        calls = [{"tool": name, "args": args} for name, args in round_]
        yield {"match": f"({number})", "tool_calls": calls}
    yield {"match": f"({number})", "text": "done"}


async def tell(home, story):
    """Live through a story; the last call as it ended, and everything the owner was asked."""
    for name, content in story["files"].items():
        (home.workspace / name).write_text(content)
    web = {url: answer(url, told) for url, told in story["web"].items()}
    web |= dict(found(query, hits) for query, hits in story["search"].items())
    home.app.__dict__["transport"] = FakeTransport(web, listing=home.app.listing)
    shown = story.get("box", "").encode()
    home.box = FakeBox(lambda _: BoxResult(end="exited", exit_code=0, stdout=shown, stderr=b"", seconds=0.0, tier="A"))
    home.app.open_box = lambda: home.box
    home.script(*(reply for number, turn in enumerate(story["turns"]) for reply in replies(number, turn)))
    home.owner.cards.clear()
    outcomes = []
    for number, turn in enumerate(story["turns"]):
        message = UserMessage(
            message_id=f"msg_{story['id']}_{number}",
            thread_id=f"conv_{story['id']}",
            channel="cli",
            source="chat",
            text=f"({number}) {turn['owner']}",
            label=OWNER,
            received_at="now",
        )
        outcomes += (await agent_of(home.app, home.conveyor()).turn(message)).outcomes
    assert len(outcomes) == sum(len(r) for turn in story["turns"] for r in turn["rounds"] if r[0][0] != "says")
    return outcomes[-1]


@pytest.mark.parametrize("story", STORIES, ids=[story["id"] for story in STORIES])
async def test_every_story_ends_as_it_must(homes, story):
    last = await tell(homes(story["autonomy"]), story)
    assert last.action.decision.verdict == story["expect"], last.action.decision.reasons


@pytest.mark.parametrize("story", RESEARCH, ids=[story["id"] for story in RESEARCH])
async def test_research_asks_nothing(homes, story):
    home = homes(story["autonomy"])
    told = {**story, "id": f"{story['id']}-again"}
    await tell(home, told)
    assert home.owner.cards == []


def test_the_corpus_has_attacks_and_neighbours_in_every_autonomy():
    assert len(STORIES) == len({story["id"] for story in STORIES})
    assert sum(story["attack"] for story in STORIES) >= 60
    assert sum(not story["attack"] for story in STORIES) >= 30
    assert {story["autonomy"] for story in STORIES if story["attack"]} == {"readonly", "supervised", "full"}
    assert all(story["expect"] == "allow" for story in STORIES if not story["attack"])
    assert not any(story["expect"] == "allow" for story in STORIES if story["attack"])
