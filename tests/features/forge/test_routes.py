"""Pull requests, the bot and its intel over HTTP, with a real server and real jobs."""

from coilclaw.features.approvals.feature import approvals_part
from coilclaw.features.forge.feature import forge_part
from coilclaw.features.forge.forge import LocalForge
from coilclaw.features.forge.store import new_pull, pull_of_job
from coilclaw.features.forge.views import file_diffs
from coilclaw.features.jobs.feature import jobs_part
from coilclaw.sandbox.bot_repository import BOT, Written
from coilclaw.store.actions import load_action
from coilclaw.store.yolo import yolo_now
from tests.features.conftest import calls
from tests.server.parts import joined
from tests.server.site import served

HOSTILE = "evil\u202e <script>\x1b[2J"
WRITES = calls(
    ("file_write", {"path": "notes/a.md", "content": f"{HOSTILE}\n"}),
    ("file_write", {"path": "notes/c\u202e.md", "content": "plain\n"}),
)


def parts(serving):
    return joined(serving, approvals_part, forge_part, jobs_part)


async def with_pull(office, **overrides):
    here = office(**{"forge__enabled": True, "jobs__step_calls": 5, **overrides})
    here.home.script(WRITES, {"text": HOSTILE})
    job = await here.create(f"write {HOSTILE}")
    await here.drain()
    assert pull_of_job(here.app.db.reader, job.job_id) is not None, here.job(job).reason
    return here, job


async def test_a_pull_request_is_listed_shown_and_its_difference_is_bounded(office):
    here, job = await with_pull(office)
    async with served(here.home, parts) as site:
        (listed,) = (await site.http.get("/v1/pulls", params={"state": "OPEN"})).json()["items"]
        assert (listed["number"], listed["job_id"], listed["checks"]) == (1, job.job_id, "passed")
        assert load_action(here.app.db.reader, listed["action_id"]).call.tool == "pr_merge"
        assert (await site.http.get("/v1/pulls", params={"state": "MERGED"})).json()["items"] == []
        shown = await site.http.get("/v1/pulls/1")
        page = await site.http.get("/v1/pulls/1/diff", params={"limit": 100})
        for answer in (shown, page):
            assert "\u202e" not in answer.text
            assert "\\u202e" not in answer.text
            assert "\\u001b" not in answer.text
        files = {each["path"]: each for each in page.json()["items"]}
        assert "⟨U+202E⟩" in files["notes/a.md"]["patch"]
        listed = (await site.http.get("/v1/pulls/1/files")).json()
        light = ("path", "kind", "old_size", "new_size", "executable")
        assert listed["items"] == [{name: each[name] for name in light} for each in files.values()]
        few = (await site.http.get("/v1/pulls/1/files", params={"limit": 1})).json()
        rest = await site.http.get("/v1/pulls/1/files", params={"cursor": few["next_cursor"]})
        assert [*few["items"], *rest.json()["items"]] == listed["items"]
        for each in files.values():
            alone = await site.http.get("/v1/pulls/1/diff", params={"path": each["path"]})
            assert alone.json() == {"items": [each], "next_cursor": None}
        assert (await site.http.get("/v1/pulls/1/diff", params={"path": "nowhere.md"})).json()["items"] == []
        first = (await site.http.get("/v1/pulls/1/diff", params={"limit": 1})).json()
        rest = await site.http.get("/v1/pulls/1/diff", params={"limit": 100, "cursor": first["next_cursor"]})
        assert len(first["items"]) + len(rest.json()["items"]) == len(files)
        assert all(each["passed"] for each in (await site.http.get("/v1/pulls/1/checks")).json()["items"])
        assert (await site.http.get("/v1/pulls/2")).status_code == 404
        assert (await site.bare.get("/v1/pulls")).status_code == 401
        told = (await site.http.get(f"/v1/jobs/{job.job_id}")).json()
        assert told["pull"] == {"number": 1, "state": "OPEN"}


async def test_binary_and_long_files_are_named_with_their_sizes(sample):
    home = sample(forge__enabled=True)
    files = [Written("a.bin", b"\0\xff" * 50), Written("b.txt", b"x\n" * 200_000)]
    LocalForge(home.app).open_plain("x/y", files, "bytes", "")
    async with served(home, parts) as site:
        small, long = (await site.http.get("/v1/pulls/1/diff")).json()["items"]
    assert (small["path"], small["binary"], small["patch"], small["new_size"]) == ("a.bin", True, "", 100)
    assert (long["cut"], long["patch"], long["new_size"]) == (True, "", 400_000)


async def test_sizes_are_those_of_the_files_however_they_changed(sample):
    home = sample(forge__enabled=True)
    forge = LocalForge(home.app)
    texts = {
        "empty.md": b"", "open.md": b"no line break",
        "marks.md": b"@@ -1 +1 @@\n\\ No newline at end of file\n+x\n-y\n",
        "lines.md": b"\n\n\n", "crlf.md": b"a\r\nb\r\n", "wide.md": "ünï 🦀\n".encode(), "bytes.bin": b"\0\n\\ \n",
        "diff.md": b"x\ndiff --git a/x b/x\n",
    }  # fmt: skip
    base = forge.bot.settle("before")
    full = forge.repository.commit(base, [Written(path, data) for path, data in texts.items()], "more", BOT, 1)
    more = forge.repository.commit(full, [Written(path, data + b"z\n") for path, data in texts.items()], "z", BOT, 1)
    for old, new in ((base, full), (full, base), (full, more)):
        made = new_pull(branch="b", base_sha=old, head_sha=new, title="t", body="", risk="R2", labels=())
        changes = forge.changes(made)
        before, after = ({} if end == base else forge.repository.entries(end) for end in (old, new))
        for whole in (True, False):
            for each in file_diffs(forge, made, changes, lambda text: text, whole=whole):
                sizes = tuple(end[each.path].size if each.path in end else 0 for end in (before, after))
                assert (each.path, each.old_size, each.new_size) == (each.path, *sizes)


async def test_changes_closing_and_what_stands_in_the_way(office):
    here, job = await with_pull(office)
    async with served(here.home, parts) as site:
        assert (await site.http.post("/v1/pulls/1/changes", json={"words": ""})).status_code == 400
        wanted = await site.http.post("/v1/pulls/1/changes", json={"words": "shorter"})
        assert (wanted.status_code, wanted.json()["wanted"]) == (200, "shorter")
        await here.drain()
        revert = await site.http.post("/v1/pulls/1/revert")
        assert (revert.status_code, revert.json()["code"]) == (409, "PULL_STATE")
        closed = await site.http.post("/v1/pulls/1/close", json={"reason": "no"})
        assert (closed.json()["state"], closed.json()["reason"]) == ("CLOSED", "no")
        await here.drain()
        assert here.job(job).state == "CANCELLED"
        assert (await site.http.post("/v1/pulls/1/reopen")).status_code == 409
        assert (await site.http.post("/v1/pulls/9/close")).status_code == 404


async def test_the_merge_is_answered_where_every_question_is(office):
    here, _ = await with_pull(office)
    async with served(here.home, parts) as site:
        action = (await site.http.get("/v1/pulls/1")).json()["action_id"]
        card = (await site.http.get(f"/v1/approvals/{action}")).json()
        assert "notes/a.md" in str(card)
        await here.home.approve(action)
        await here.drain()
        assert (await site.http.get("/v1/pulls/1")).json()["state"] == "MERGED"
        back = (await site.http.post("/v1/pulls/1/revert")).json()
        assert (back["number"], back["job_id"], bool(back["action_id"])) == (2, None, True)


async def test_the_bot_and_its_mode(office):
    here, _ = await with_pull(office, forge__merge_mode="strict")
    async with served(here.home, parts) as site:
        bot = (await site.http.get("/v1/bot")).json()
        assert (bot["fault"], bot["mode"], bot["open_pulls"], bot["trees"]) == ("", "strict", 1, 1)
        assert bot["main"] == bot["deployed"] != ""
        assert (await site.http.put("/v1/bot/mode", json={"mode": "yolo"})).status_code == 422
        assert (await site.http.put("/v1/bot/mode", json={"mode": "yolo", "hours": 25})).status_code in (400, 422)
        waits = await site.http.put("/v1/bot/mode", json={"mode": "yolo", "hours": 8})
        assert waits.status_code == 202
        action = load_action(here.app.db.reader, waits.json()["action_id"])
        assert (action.call.tool, action.status, action.decision.lane) == ("bot_yolo", "PENDING", "C")
        assert yolo_now(here.app.db.reader, here.app.clock()) is None
        await here.home.approve(action.action_id)
        assert (await site.http.get("/v1/bot")).json()["mode"] == "yolo"
        strict = await site.http.put("/v1/bot/mode", json={"mode": "strict"})
        assert (strict.status_code, strict.json()["bot"]["mode"]) == (200, "strict")
        loose = await site.http.put("/v1/bot/mode", json={"mode": "whitelist"})
        assert (loose.status_code, load_action(here.app.db.reader, loose.json()["action_id"]).decision.lane) == (
            202,
            "C",
        )


async def test_intel_is_what_stands_on_main(sample):
    home = sample(forge__enabled=True)
    (home.workspace / "intel/2026").mkdir(parents=True, exist_ok=True)
    (home.workspace / "intel/2026/x.md").write_text(HOSTILE)
    async with served(home, parts) as site:
        before = (await site.http.get("/v1/intel")).json()["items"]
        assert "intel/README.md" not in [each["path"] for each in before], "it says what the folder is for"
        assert not [each for each in before if each["path"].endswith("x.md")]
        LocalForge(home.app).bot.settle("by hand")
        assert (await site.http.get("/v1/intel")).json()["items"][-1]["path"] == "intel/2026/x.md"
        file = (await site.http.get("/v1/intel/show", params={"path": "2026/x.md"})).json()
        assert file["content"] == "evil⟨U+202E⟩ <script>⟨U+001B⟩[2J"
        for path in ("2026/none.md", "../SYSTEM.md", "/etc/passwd", "intel/../SYSTEM.md"):
            assert (await site.http.get("/v1/intel/show", params={"path": path})).status_code == 404, path
