"""A job is one turn: its steps share what they may follow, and what one of them read counts for all."""

from coilclaw.airlock.fake import FakeTransport
from tests.features.conftest import calls
from tests.gate.test_address_corpus import answer

PAGE = "https://news.example/story"
LINKS = [f"https://evil.example/{number}" for number in range(3)]


def web(here):
    told = {PAGE: "\n".join(LINKS), **dict.fromkeys(LINKS, "ok")}
    here.app.__dict__["transport"] = FakeTransport(
        {url: answer(url, text) for url, text in told.items()}, listing=here.app.listing
    )


def opens(url):
    return calls(("web_open", {"url": url}))


async def test_the_steps_of_a_job_share_what_they_may_follow(office):
    here = office(security__autonomy="full")
    web(here)
    here.home.script(opens(PAGE), *(opens(link) for link in LINKS), {"text": "done"})
    job = await here.create(f"open {PAGE} and what it names")
    await here.drain()
    assert here.job(job).state == "WAITING_APPROVAL"
    assert [request.url for request in here.app.transport.seen] == [PAGE, *LINKS[:2]]


async def test_what_one_step_read_asks_in_a_later_one(office):
    here = office(security__autonomy="full")
    (here.home.workspace / "vault.txt").write_text("7391")
    web(here)
    here.home.script(calls(("file_read", {"path": "vault.txt"})), opens(LINKS[0]), {"text": "done"})
    job = await here.create("read vault.txt")
    await here.drain()
    assert here.job(job).state == "WAITING_APPROVAL"
    assert not here.app.transport.seen


async def test_another_process_continues_with_the_same_count(office):
    here = office(security__autonomy="full")
    web(here)
    here.home.script(opens(PAGE), *(opens(link) for link in LINKS), {"text": "done"})
    job = await here.create(f"open {PAGE} and what it names")
    await here.drain()
    await here.answer(approve=False)
    here.home.script(opens(PAGE), *(opens(link) for link in LINKS), opens(LINKS[2]), {"text": "done"})
    await type(here)(here.home).drain()
    assert here.job(job).state == "WAITING_APPROVAL"
    assert len(here.app.transport.seen) == 3
