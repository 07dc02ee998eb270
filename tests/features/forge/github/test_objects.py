"""What comes from GitHub is hashed again, and what must not be here is not stored."""

import pytest

from coilclaw.features.forge.github.objects import BadObject, CommitDownloads, commit_bytes, commit_parts, object_hash
from coilclaw.sandbox.fake_github import GitHubReply
from tests.features.projects.world import git


@pytest.fixture
def bot(hub, tmp_path):
    made = hub()
    git(tmp_path, "clone", "-q", str(made.fake.hosted.folder), "other")
    return made


def pushed(tmp_path, *options, message="theirs"):
    """A commit that somebody pushed; its id."""
    other = tmp_path / "other"
    git(other, "add", "-A")
    git(other, *options, "commit", "-q", "--allow-empty", "-m", message)
    git(other, "push", "-q", "origin", "main")
    return git(other, "rev-parse", "HEAD").strip()


def downloads(bot):
    return CommitDownloads(bot.mirror.there.api, bot.mirror._pulls.forge.repository)


@pytest.mark.parametrize("zone", ["+0000", "+0200", "-0330", "+0545", "-1200"])
async def test_a_commit_of_any_time_zone_is_brought(bot, tmp_path, monkeypatch, zone):
    monkeypatch.setenv("GIT_AUTHOR_DATE", f"1700000000 {zone}")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "1700000100 +0100")
    (tmp_path / "other" / "deep").mkdir()
    (tmp_path / "other" / "deep" / "ä.md").write_text("theirs\n")
    sha = pushed(tmp_path, message="Über\n\nmore")
    await downloads(bot).bring(sha)
    assert git(bot.app.workspace, "-c", "core.quotePath=false", "show", f"{sha}:deep/ä.md") == "theirs\n"
    assert "error" not in git(bot.app.workspace, "fsck", "--strict", sha)


async def test_a_signed_merge_of_the_service_is_brought(bot):
    await bot.job()
    await bot.sync()
    commit = bot.fake.merge(1, "owner-token")
    await downloads(bot).bring(commit)
    assert "gpgsig" in git(bot.app.workspace, "cat-file", "commit", commit)


@pytest.mark.parametrize("what", ["commits", "trees", "blobs"])
async def test_an_object_that_is_not_what_its_id_says_is_refused(bot, tmp_path, what):
    (tmp_path / "other" / "x.md").write_text("theirs\n")
    sha = pushed(tmp_path)
    lies = {
        "commits": lambda body: {**body, "message": "other"},
        "trees": lambda body: {**body, "tree": body["tree"][1:]},
        "blobs": lambda body: {**body, "content": "b3RoZXIK"},
    }
    bot.fake.afterwards.append((f"/git/{what}/", lambda reply: GitHubReply(body=lies[what](reply.body))))
    with pytest.raises(BadObject):
        await downloads(bot).bring(sha)
    assert not bot.mirror._pulls.forge.repository.has(sha)


@pytest.mark.parametrize(
    ("what", "lie", "said"),
    [
        ("commits", {"message": "x" * 100_000}, "too long"),  # 16,000 guesses would each be hashed
        ("commits", {"author": {"name": "x", "email": "y", "date": "0001-01-01T00:00:00"}}, "not what its id says"),
        ("blobs", {"content": "\N{SNOWMAN}"}, "cannot be read"),
    ],
)
async def test_what_cannot_be_an_object_is_refused_and_not_guessed_at(bot, tmp_path, what, lie, said):
    (tmp_path / "other" / "x.md").write_text("theirs\n")
    sha = pushed(tmp_path)
    bot.fake.afterwards.append((f"/git/{what}/", lambda reply: GitHubReply(body={**reply.body, **lie})))
    with pytest.raises(BadObject, match=said):
        await downloads(bot).bring(sha)


async def test_folders_without_an_end_are_refused(bot, tmp_path):
    (tmp_path / "other" / "x.md").write_text("theirs\n")
    sha = pushed(tmp_path)
    for number in range(300):
        entry = {"path": "d", "mode": "040000", "sha": f"{number:040x}"}
        bot.fake.instead.append((r"/git/trees/", GitHubReply(body={"truncated": False, "tree": [entry]})))
    with pytest.raises(BadObject, match="too deep"):
        await downloads(bot).bring(sha)


async def test_a_submodule_is_refused(bot, tmp_path):
    other = tmp_path / "other"
    git(other, "update-index", "--add", "--cacheinfo", f"160000,{'a' * 40},sub")
    git(other, "-c", "user.name=x", "commit", "-q", "-m", "sub")
    git(other, "push", "-q", "origin", "main")
    with pytest.raises(BadObject, match="160000"):
        await downloads(bot).bring(git(other, "rev-parse", "HEAD").strip())


async def test_a_name_that_git_takes_for_its_own_is_refused(bot, tmp_path):
    blob = bot.fake.hosted.put_blob("x", "utf-8")
    data = b"100644 git~1\0" + bytes.fromhex(blob)
    tree = bot.fake.hosted.git("hash-object", "-t", "tree", "-w", "--stdin", "--literally", given=data).decode().strip()
    person = {"name": "x", "email": "x@y", "date": "2026-01-01T00:00:00Z"}
    sha = bot.fake.hosted.put_commit(
        {"tree": tree, "parents": [bot.there_main()], "author": person, "committer": person, "message": "m\n"}
    )
    with pytest.raises(BadObject, match="its own folder"):
        await downloads(bot).bring(sha)


async def test_a_folder_that_is_cut_off_is_refused(bot, tmp_path):
    (tmp_path / "other" / "x.md").write_text("theirs\n")
    sha = pushed(tmp_path)
    bot.fake.hosted.most_entries = 1
    with pytest.raises(BadObject, match="too many"):
        await downloads(bot).bring(sha)


def test_a_commit_that_the_api_would_make_differently_is_not_sent():
    plain = b"tree a\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nm\n"
    assert commit_parts(plain) is not None
    assert commit_parts(plain.replace(b"+0000", b"+0100")) is None
    assert commit_parts(plain.replace(b"\n\nm", b"\ngpgsig x\n\nm")) is None
    assert commit_parts(b"\xff" + plain) is None


def test_what_the_api_tells_of_a_commit_is_enough_to_find_its_bytes():
    data = b"tree a\nauthor A <a@b> 1700000000 -0930\ncommitter B <b@c> 1700000000 +0545\n\nm"
    person = {"date": "2023-11-14T22:13:20Z"}
    told = {
        "tree": {"sha": "a"}, "parents": [], "message": "m", "author": {**person, "name": "A", "email": "a@b"},
        "committer": {**person, "name": "B", "email": "b@c"},
    }  # fmt: skip
    assert object_hash("commit", data) in {object_hash("commit", each) for each in commit_bytes(told)}
