"""Files of the workspace shown to the owner: through the gate, by the agent's own rules, without secrets."""

import pytest

from coilclaw.store.actions import load_action
from tests.server.house import code_of, house

SECRET = "sk-or-v1-0123456789abcdef0123456789abcdef"


async def show(site, path, **headers):
    return await site.http.post("/v1/files/show", json={"path": path}, headers=headers)


async def test_a_file_is_shown_and_leaves_a_receipt(sample):
    home = sample()
    (home.workspace / "notes").mkdir(exist_ok=True)
    (home.workspace / "notes" / "week.md").write_text("# Week 47\nAll paid.\n")
    async with house(home) as site:
        told = (await show(site, "notes/week.md")).json()
        assert (told["path"], told["content"].strip(), told["cut"]) == ("notes/week.md", "# Week 47\nAll paid.", False)
        assert told["untrusted"] is False
        action = load_action(home.app.db.reader, told["action_id"])
        assert (action.call.tool, action.source, action.status) == ("file_read", "gateway", "EXECUTED")
        receipts = (await site.http.get("/v1/receipts", params={"action_id": told["action_id"]})).json()["items"]
        assert len(receipts) == 1


async def test_the_same_request_again_reads_once(sample):
    home = sample()
    (home.workspace / "a.txt").write_text("x")
    async with house(home) as site:
        key = {"Idempotency-Key": "0123456789abcdef"}
        first, again = (await show(site, "a.txt", **key)).json(), (await show(site, "a.txt", **key)).json()
        assert first == again


async def test_no_secret_of_a_file_is_shown(sample):
    home = sample()
    (home.workspace / "a.txt").write_text(f"key = {SECRET}\n")
    async with house(home) as site:
        answer = await show(site, "a.txt")
        assert answer.status_code == 200
        assert SECRET not in answer.text


@pytest.mark.parametrize("path", [".env", "/etc/passwd", "../home/secret.key", "link.txt"])
async def test_what_the_agent_may_not_read_is_not_shown_either(sample, path):
    home = sample()
    (home.workspace / ".env").write_text("A=1\n")
    (home.workspace / "link.txt").symlink_to("/etc/passwd")
    async with house(home) as site:
        answer = await show(site, path)
        assert answer.status_code in (403, 409)
        assert "root:" not in answer.text
        assert "A=1" not in answer.text


async def test_what_is_not_there_is_said(sample):
    home = sample()
    async with house(home) as site:
        answer = await show(site, "none.md")
        assert answer.status_code == 409
        assert "none.md" in answer.json()["detail"]


async def test_whose_words_a_file_holds_is_said(sample):
    home = sample()
    (home.workspace / "seen.txt").write_text("words\n")
    looked = home.app.file_labels.look(["seen.txt"])
    home.app.db.write_now(lambda tx: home.app.file_labels.mark(tx, looked, ["untrusted:web"]))
    async with house(home) as site:
        told = (await show(site, "seen.txt")).json()
        assert (told["label"], told["untrusted"]) == ("untrusted:web", True)


async def test_nothing_is_shown_while_everything_is_stopped(sample):
    home = sample()
    (home.workspace / "a.txt").write_text("x")
    async with house(home) as site:
        assert (await site.http.post("/v1/estop", json={"reason": "x"})).json()["engaged"] is True
        answer = await show(site, "a.txt")
        assert code_of(answer, 403) == "ESTOP"
