"""Standing answers over HTTP: made by an approval that says so, listed, revoked, and made by nothing else."""

import msgspec

from coilclaw.features.answers.feature import answers_part
from coilclaw.features.answers.views import AnswerView
from coilclaw.features.approvals.feature import approvals_part
from tests.features.approvals.queue_home import code_of, queue_home
from tests.server.parts import joined
from tests.server.site import served


def both_parts(serving):
    return joined(serving, approvals_part, answers_part)


async def card_of(site, action_id):
    return (await site.http.get(f"/v1/approvals/{action_id}")).json()


async def say_yes(site, action_id, **more):
    card = await card_of(site, action_id)
    body = {"digest": card["digest"], "seen": card["seen"], **more}
    return await site.http.post(f"/v1/approvals/{action_id}/approve", json=body)


async def test_an_approval_makes_an_answer_that_the_next_call_runs_by(tmp_path):
    with queue_home(tmp_path) as q:
        action = await q.write("docs/a.txt")
        async with served(q.home, both_parts) as site:
            offer, anywhere = (await card_of(site, action))["offers"]
            assert anywhere["what"] == "anywhere"
            assert offer == {
                "what": "folder",
                "text": "writing ordinary files in docs/",
                "until": ["today", "revoked"],
            }
            answer = await say_yes(site, action, from_now_on={"what": "folder", "until": "today"})
            assert answer.status_code == 200
            await q.status(action, "EXECUTED")

            assert (await q.home.call("file_write", path="docs/b.txt", content="b")).result.success
            (listed,) = (await site.http.get("/v1/answers")).json()["items"]
            assert (listed["uses"], listed["until"], listed["holds"]) == (1, "today", True)
            assert listed["created_by"].startswith("device:")
            assert listed["action_id"] == action

            revoked = await site.http.delete(f"/v1/answers/{listed['answer_id']}")
            assert (revoked.status_code, revoked.json()["holds"]) == (200, False)
            assert (await site.http.delete(f"/v1/answers/{listed['answer_id']}")).status_code == 200
            assert (await site.http.get("/v1/answers")).json()["items"] == []
            ended = (await site.http.get("/v1/answers", params={"ended": "true"})).json()["items"]
            assert [each["answer_id"] for each in ended] == [listed["answer_id"]]
            await q.write("docs/c.txt")


async def test_what_is_not_offered_is_not_a_yes(tmp_path):
    with queue_home(tmp_path) as q:
        write, send = await q.write("docs/a.txt"), await q.send(text="hi")
        async with served(q.home, both_parts) as site:
            for wanted in ({"what": "command", "until": "today"}, {"what": "folder", "until": "conversation"}):
                assert code_of(await say_yes(site, write, from_now_on=wanted), 422) == "NOT_OFFERED"
            unfit = await say_yes(site, write, from_now_on={"what": "everything", "until": "ever"})
            assert unfit.status_code in (400, 422)
            assert (await card_of(site, send))["offers"] == []
            assert q.load(write).status == q.load(send).status == "PENDING"
            assert (await site.http.get("/v1/answers")).json()["items"] == []


async def test_none_can_be_made_or_revoked_that_is_not_there(tmp_path):
    with queue_home(tmp_path) as q:
        async with served(q.home, both_parts) as site:
            assert (await site.http.post("/v1/answers", json={})).status_code == 405
            assert (await site.http.delete("/v1/answers/ans_none")).status_code == 404


async def test_saying_yes_again_makes_no_second_answer(tmp_path):
    with queue_home(tmp_path) as q:
        action = await q.write("docs/a.txt")
        async with served(q.home, both_parts) as site:
            wanted = {"what": "folder", "until": "revoked"}
            card = await card_of(site, action)
            body = {"digest": card["digest"], "seen": card["seen"], "from_now_on": wanted}
            for _ in range(2):
                answer = await site.http.post(f"/v1/approvals/{action}/approve", json=body)
                assert answer.status_code == 200
                await q.status(action, "EXECUTED")
            assert len((await site.http.get("/v1/answers")).json()["items"]) == 1


def test_a_person_reads_each_answer_in_a_sentence(capsys):
    from coilclaw.features.answers.commands import show_answers

    made = AnswerView(
        answer_id="ans_1", what="program", scope="npm test with other arguments", until="conversation", root="/w",
        thread_id="conv_1", action_id="act_1", holds=True, expires_at=None, created_at="", created_by="terminal",
        revoked_at=None, uses=1, last_used_at=None,
    )  # fmt: skip
    show_answers([made, msgspec.structs.replace(made, thread_id=None, until="revoked", answer_id="ans_2")])
    assert capsys.readouterr().out.splitlines() == [
        "· npm test with other arguments", "  in /w, conversation conv_1, used 1 time: ans_1",
        "· npm test with other arguments", "  in /w, until you revoke it, used 1 time: ans_2",
    ]  # fmt: skip
    show_answers([])
    assert capsys.readouterr().out == "There are no standing answers.\n"
