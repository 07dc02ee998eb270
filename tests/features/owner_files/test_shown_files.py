"""Files of the workspace shown to the owner: through the gate, by the agent's own rules, without secrets."""

import base64
import hashlib

import pytest

from coilclaw.features.owner_files.shown_file import LARGEST_IMAGE
from coilclaw.store.actions import load_action
from coilclaw.tools.show import MAX_SHOWN
from tests.features.owner_files.test_picture_size import PNG, SAMPLES, with_size
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
        assert (action.call.tool, action.source, action.status) == ("file_show", "gateway", "EXECUTED")
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


async def test_what_is_not_there_is_reported(sample):
    home = sample()
    async with house(home) as site:
        answer = await show(site, "none.md")
        assert answer.status_code == 409
        assert "none.md" in answer.json()["detail"]


async def test_whose_words_a_file_holds_is_reported(sample):
    home = sample()
    (home.workspace / "seen.txt").write_text("words\n")
    looked = home.app.root.labels.look(["seen.txt"])
    home.app.db.write_now(lambda tx: home.app.root.labels.mark(tx, looked, ["untrusted:web"]))
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


KINDS = {
    **SAMPLES,
    "pdf": b"%PDF-1.7\nall of it is text\n",
    "zip": b"PK\x03\x04\x14\0\xff",
    "other": b"\x7fELF\x02\xff",
    "text": "Grüße, <svg onload='x'></svg>\n".encode(),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_file_is_what_its_first_bytes_say_and_never_what_its_name_says(sample, kind):
    home = sample()
    (home.workspace / "scan.png").write_bytes(KINDS[kind])
    async with house(home) as site:
        answer = await show(site, "scan.png")
        assert answer.status_code == 200, answer.text
        told = answer.json()
        assert (told["kind"], told["size"]) == (kind, len(KINDS[kind]))
        assert told["sha256"] == hashlib.sha256(KINDS[kind]).hexdigest()
        pictured = kind in ("png", "jpeg", "gif", "webp")
        assert told["image"] == (base64.b64encode(KINDS[kind]).decode() if pictured else "")
        assert told["content"] == (KINDS["text"].decode() if kind == "text" else "")
        assert told["cut"] is False
        action = load_action(home.app.db.reader, told["action_id"])
        assert (action.call.tool, action.status) == ("file_show", "EXECUTED")
        receipts = (await site.http.get("/v1/receipts", params={"action_id": told["action_id"]})).json()["items"]
        assert len(receipts) == 1


@pytest.mark.parametrize("lines", [10_000, 40_000])
async def test_of_a_long_text_only_the_beginning_is_shown_and_the_rest_is_reported(sample, lines):
    home = sample()
    data = "0123456789abcdé\n".encode() * lines
    (home.workspace / "long.log").write_bytes(data)
    async with house(home) as site:
        told = (await show(site, "long.log")).json()
        assert (told["kind"], told["cut"], told["size"]) == ("text", True, len(data))
        assert told["sha256"] == hashlib.sha256(data).hexdigest()
        assert data.decode().startswith(told["content"])
        assert (120 << 10) < len(told["content"].encode()) <= (128 << 10)


async def test_a_secret_that_the_cut_would_halve_is_not_shown_by_half(sample):
    home = sample()
    start = "plain words\n" * 20_000
    (home.workspace / "a.log").write_text(f"{start[: (128 << 10) - 12]} {SECRET}\n{start}")
    async with house(home) as site:
        told = (await show(site, "a.log")).json()
        assert told["cut"] is True
        assert SECRET[:8] not in told["content"]


async def test_a_picture_that_is_large_or_holds_a_secret_is_named_and_not_shown(sample):
    home = sample()
    home.app.redactor.register("LAB", "plain-lab-value-77")
    (home.workspace / "large.png").write_bytes(PNG + b"\0" * LARGEST_IMAGE)
    (home.workspace / "told.png").write_bytes(PNG + b"plain-lab-value-77")
    (home.workspace / "wide.png").write_bytes(with_size(PNG, 100_000, 100_000))
    async with house(home) as site:
        for path in ("large.png", "told.png", "wide.png"):
            told = (await show(site, path)).json()
            assert (told["kind"], told["image"], told["content"]) == ("png", "", "")
            assert told["size"] == (home.workspace / path).stat().st_size


async def test_what_is_larger_than_is_ever_read_is_refused_as_too_large(sample):
    home = sample()
    with (home.workspace / "huge.bin").open("wb") as file:
        file.truncate(MAX_SHOWN + 1)
    async with house(home) as site:
        assert code_of(await show(site, "huge.bin"), 409) == "FILE_TOO_LARGE"


async def test_whose_picture_it_is_is_reported(sample):
    home = sample()
    (home.workspace / "seen.png").write_bytes(PNG)
    looked = home.app.root.labels.look(["seen.png"])
    home.app.db.write_now(lambda tx: home.app.root.labels.mark(tx, looked, ["untrusted:web"]))
    async with house(home) as site:
        told = (await show(site, "seen.png")).json()
        assert (told["label"], told["untrusted"], told["kind"]) == ("untrusted:web", True, "png")


@pytest.mark.parametrize("path", [".env", "../scan.png", "notes/../../scan.png", "link.png"])
async def test_a_picture_where_nothing_may_be_read_is_not_shown_either(sample, path):
    home = sample()
    (home.workspace / "notes").mkdir(exist_ok=True)
    (home.workspace / ".env").write_bytes(PNG)
    (home.workspace.parent / "scan.png").write_bytes(PNG)
    (home.workspace / "link.png").symlink_to("../scan.png")
    async with house(home) as site:
        answer = await show(site, path)
        assert answer.status_code == 403
        assert base64.b64encode(PNG).decode()[:20] not in answer.text


async def test_of_a_link_is_said_that_it_is_one(sample):
    home = sample()
    (home.workspace / "real.txt").write_text("behind\n")
    (home.workspace / "link.txt").symlink_to("real.txt")
    async with house(home) as site:
        assert code_of(await show(site, "link.txt"), 409) == "FILE_CHANGED"
        assert (await show(site, "real.txt")).json()["content"] == "behind\n"


async def test_only_what_was_looked_at_is_shown(sample):
    home = sample()
    file = home.workspace / "a.txt"
    file.write_text("then\n")
    async with house(home) as site:
        key = {"Idempotency-Key": "0123456789abcdef"}
        look = home.app.reached
        home.app.reached = lambda name: file.write_text("meanwhile\n") if name == "finished" else look(name)
        answer = await show(site, "a.txt", **key)
        assert code_of(answer, 409) == "FILE_CHANGED"
        assert "meanwhile" not in answer.text
