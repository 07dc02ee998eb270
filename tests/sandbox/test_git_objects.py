"""Objects without a process of git: byte for byte what git writes, and never believed without their hash."""

import json
import os
import subprocess
import tracemalloc
import zlib
from pathlib import Path

import pytest

from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.bot_repository import BotRepository
from coilclaw.sandbox.fast_import import BOT, OWNER, ForgeRefused, Written
from coilclaw.sandbox.git import run_git
from coilclaw.sandbox.git_objects import ANSWER_BYTES, ANSWERS, Answers, read_loose, write_loose

WHEN = 1_800_000_000


@pytest.fixture(params=["sha1", "sha256"])
def repository(tmp_path, request):
    place = tmp_path / "bot"
    place.mkdir()
    run_git(place, "init", "--quiet", f"--object-format={request.param}")
    (place / "a.md").write_text("one\n")
    run_git(place, "add", "a.md")
    run_git(place, "commit", "--quiet", "-m", "first")
    return BotRepository(place)


def place_of(repository, sha):
    return repository.folder / ".git/objects" / sha[:2] / sha[2:]


def head_of(repository, path="b.md", data=b"two\n"):
    main = repository.resolve("refs/heads/main")
    return main, repository.commit(main, [Written(path, data)], "change", BOT, WHEN)


def test_a_commit_has_the_id_that_git_itself_gives_it(repository):
    main, head = head_of(repository)
    tree = repository.merge(main, head).tree
    message = "Merge ünïcode 🦀\n\nJob: job_1\n\n\n"
    ours = repository.commit_tree(tree, [main, head], message, OWNER, WHEN)
    who = {"AUTHOR": OWNER, "COMMITTER": BOT}
    environment = {f"GIT_{role}_NAME": each.name for role, each in who.items()}
    environment |= {f"GIT_{role}_EMAIL": each.address for role, each in who.items()}
    environment |= {f"GIT_{role}_DATE": f"{WHEN} +0000" for role in who}
    command = ["git", "-C", str(repository.folder), "commit-tree", tree, "-p", main, "-p", head]
    made = subprocess.run(
        command,
        input=(message.strip() + "\n").encode(),
        env={**os.environ, **environment},
        capture_output=True,
        check=True,
    )
    assert ours == made.stdout.decode().strip()
    run_git(repository.folder, "fsck", "--strict")
    assert repository.commit_tree(tree, [main, head], message, OWNER, WHEN) == ours


def test_a_nul_character_in_a_message_is_refused(repository):
    main, head = head_of(repository)
    with pytest.raises(ForgeRefused, match="NUL"):
        repository.commit_tree(repository.tree_of(head), [main], "a\0b", BOT, WHEN)


def test_what_does_not_have_its_own_hash_is_never_handed_out(repository):
    _, head = head_of(repository)
    blob = repository.entries(head)["b.md"].blob
    assert repository.blobs([blob]) == {blob: b"two\n"}
    place = place_of(repository, blob)
    place.chmod(0o644)
    for wrong in (zlib.compress(b"blob 4\0evil"), b"no zlib", b""):
        place.write_bytes(wrong)
        assert read_loose(repository.folder / ".git/objects", "blob", blob) is None
        with pytest.raises(ToolError):
            repository.blobs([blob])


def test_a_pipe_a_link_or_endless_zeros_in_a_clone_hold_nobody_up(repository, tmp_path):
    _, head = head_of(repository)
    objects, blob = repository.folder / ".git/objects", repository.entries(head)["b.md"].blob
    place = place_of(repository, blob)
    place.rename(tmp_path / "kept")
    place.symlink_to(tmp_path / "kept")
    assert read_loose(objects, "blob", blob) is None
    place.unlink()
    os.mkfifo(place)
    assert read_loose(objects, "blob", blob) is None
    place.unlink()
    for size in (b"4", b"9" * 30, b"-1", b""):
        place.write_bytes(zlib.compress(b"blob " + size + b"\0" + bytes(50 << 20)))
        tracemalloc.start()
        assert read_loose(objects, "blob", blob) is None
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
        tracemalloc.stop()


def test_packed_objects_are_found_too(repository):
    main, head = head_of(repository)
    repository.put("refs/heads/kept", head)
    run_git(repository.folder, "repack", "-adq")
    run_git(repository.folder, "prune-packed")
    blob = repository.entries(head)["b.md"].blob
    assert not place_of(repository, blob).exists()
    assert repository.blobs([blob]) == {blob: b"two\n"}
    assert [each.path for each in repository.changes(main, head)] == ["b.md"]
    assert repository.merge(main, head).tree == repository.tree_of(head)


def test_a_merge_that_is_known_is_made_again_when_its_tree_was_removed(repository):
    main, head = head_of(repository)
    other = repository.commit(main, [Written("c.md", b"three\n")], "other", BOT, WHEN)
    tree = repository.merge(other, head).tree
    place_of(repository, tree).unlink()
    assert repository.merge(other, head).tree == tree
    assert place_of(repository, tree).exists()


def test_a_merge_that_is_known_is_refused_when_the_head_is_gone(repository):
    main, head = head_of(repository)
    assert not repository.merge(main, head).conflicts
    place_of(repository, head).unlink()
    with pytest.raises(ToolError, match="merge-tree"):
        repository.merge(main, head)


def test_conflicts_are_said_each_time(repository):
    main, head = head_of(repository, "a.md")
    other = repository.commit(main, [Written("a.md", b"three\n")], "other", BOT, WHEN)
    assert [repository.merge(other, head).conflicts for _ in range(2)] == [("a.md",), ("a.md",)]


def test_an_object_that_is_there_stays_as_it_is(tmp_path):
    names = {write_loose(tmp_path, "blob", b"x", "0" * 40) for _ in range(2)}
    assert len(names) == 1
    assert [each.name for each in tmp_path.rglob("*") if each.is_file()] == [next(iter(names))[2:]]


def test_answers_are_few_and_short():
    answers = Answers()
    for number in range(ANSWERS + 1):
        assert answers.of((str(number),), lambda: b"x") == b"x"
    assert answers.get(("0",)) is None
    assert answers.get((str(ANSWERS),)) == b"x"
    assert len(answers.of(("long",), lambda: b"x" * (ANSWER_BYTES + 1))) == ANSWER_BYTES + 1
    assert answers.get(("long",)) is None


def test_what_main_names_is_synced_before_main_names_it(tmp_path):
    """By itself git syncs neither loose objects nor references: a power cut could leave main on a missing commit."""
    run_git(tmp_path, "init", "--quiet")
    (tmp_path / "a.md").write_text("one\n")
    run_git(tmp_path, "add", "a.md")
    assert _flushes(tmp_path, "commit", "--quiet", "-m", "first") >= 3  # tree, commit, reference
    commit = run_git(tmp_path, "rev-parse", "HEAD").strip()
    assert _flushes(tmp_path, "update-ref", "refs/heads/other", commit) >= 1


def _flushes(folder, *command):
    """How often git waited for the disk, by its own count."""
    trace = folder / ".git" / "trace"
    trace.unlink(missing_ok=True)
    run_git(folder, *command, environment={"GIT_TRACE2_EVENT": str(trace)})
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    counted = [each for each in events if each.get("category") == "fsync" and "flush" in each.get("key", "")]
    return sum(int(each["value"]) for each in counted)


def test_an_object_of_our_own_is_synced_before_it_has_its_name(repository, monkeypatch):
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.readlink(f"/proc/self/fd/{fd}")), real(fd)))
    write_loose(repository.folder / ".git/objects", "blob", b"new\n", repository.resolve("refs/heads/main"))
    assert [Path(each).name.startswith("tmp_obj_") for each in synced] == [True]
