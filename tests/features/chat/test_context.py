"""How full the window is, over HTTP, and summing up a conversation by the owner's word."""

from coilclaw.packets.action import OWNER
from coilclaw.packets.chat import ChatResponse, ProviderCapabilities
from coilclaw.packets.errors import ProviderUnavailable
from coilclaw.store.threads import MessageRow, add_message, ensure_thread
from tests.features.chat.talking import Slow, say, talking


class Summariser:
    """A provider that sums up, or is down."""

    name = "summariser"
    capabilities = ProviderCapabilities(tool_calls=True, streaming=False, local=True, context_window=8000)

    def __init__(self, *, fails=False):
        self._fails = fails

    async def chat(self, request, on_text=None):
        if self._fails:
            raise ProviderUnavailable("down")
        return ChatResponse(final_text="They spoke of beans.", provider="summariser", model="m")


def talked(home, count=12):
    def write(tx):
        ensure_thread(tx, home.app.clock, "conv_1", "panel", "beans")
        for at in range(count):
            row = MessageRow(
                message_id=f"m{at}",
                thread_id="conv_1",
                turn_id=f"turn_{at // 2}",
                role="assistant" if at % 2 else "user",
                content=f"words {at} " + "and beans " * 60,
                label=OWNER,
            )
            add_message(tx, home.app.clock, row)

    home.app.db.write_now(write)


AT = "/v1/chat/threads/conv_1"


async def test_the_window_is_told_and_freed(sample):
    home = sample()
    talked(home)
    async with talking(home, model=Summariser()) as site:
        before = (await site.http.get(f"{AT}/context")).json()
        assert before["window"] == 8000
        assert before["used"] == before["prompt"] + before["tools"] + before["messages"]
        after = await site.http.post(f"{AT}/compact")
        assert after.status_code == 200, after.text
        assert after.json()["summarised"] > 0
        assert after.json()["messages"] < before["messages"]
        assert (await site.http.get(f"{AT}/context")).json() == after.json()
        shown = (await site.http.get(f"{AT}/messages")).json()["items"]
        assert [each["content"] for each in shown if each["code"] == "SUMMARY"] == ["They spoke of beans."]


async def test_a_model_that_is_down_leaves_the_conversation_as_it_is(sample):
    home = sample()
    talked(home)
    async with talking(home, model=Summariser(fails=True)) as site:
        before = (await site.http.get(f"{AT}/context")).json()
        assert (await site.http.post(f"{AT}/compact")).json() == before


async def test_it_is_refused_while_an_answer_is_being_given_and_where_there_is_no_conversation(sample):
    home, model = sample(), Slow("hello")
    async with talking(home, model=model) as site:
        posted = await say(site)
        refused = await site.http.post(f"/v1/chat/threads/{posted['thread_id']}/compact")
        assert refused.status_code == 409
        model.go(2)
        for method in (site.http.get, site.http.post):
            name = "context" if method == site.http.get else "compact"
            assert (await method(f"/v1/chat/threads/conv_none/{name}")).status_code == 404


async def test_it_counts_in_the_budget_of_the_day(sample):
    home = sample(budgets__daily_tokens=0)
    talked(home)
    async with talking(home, model=Summariser()) as site:
        assert (await site.http.post(f"{AT}/compact")).status_code == 429
