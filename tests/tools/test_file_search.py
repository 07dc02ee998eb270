"""file_search through the gate: bounded whatever the expression, labelled by what it found, blind to what is hidden."""

import asyncio
import json
import os
import time
from pathlib import Path

import msgspec
import pytest

from coilclaw.gate.turn import Turn
from coilclaw.packets.search import SearchQuery
from coilclaw.sandbox.search import search_files

EVIL, BAD = "untrusted:evil.example", "untrusted:bad.example"


def a_turn(number=1, *taint):
    return Turn(f"turn_{number}", "", "cli", taint)


async def search(home, turn=None, **args):
    return (await home.call("file_search", turn=turn, key=f"{time.monotonic_ns()}", **args)).result


def write(home, files):
    for path, text in files.items():
        (home.workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (home.workspace / path).write_text(text)


async def labelled(home, path, text, label=EVIL):
    await home.call("file_write", turn=a_turn(90, label), path=path, content=text, key=f"labelled-{path}")


def rule(home, **parts):
    text = json.dumps({"version": 1, "rules": [{"id": "mine", "reason": "Mine.", "verdict": "deny", **parts}]})
    (home.workspace / "policies" / "mine.json").write_text(text)


async def test_matches_are_told_by_path_and_line(sample):
    home = sample(security__autonomy="readonly")
    write(home, {"src/a.py": "import os\nneedle = 1\n", "src/b.py": "x\r\nneedle()\r\n", "c.txt": "needle"})
    result = await search(home, pattern=r"needle\b", path="src")
    assert result.output == "src/a.py:2: needle = 1\nsrc/b.py:2: needle()"
    assert (await search(home, pattern="NEEDLE", ignore_case=True, glob="*.txt")).output == "c.txt:1: needle"
    assert (await search(home, pattern="needle", path="src/a.py")).output == "src/a.py:2: needle = 1"


HIDDEN = "\n[Files that policy rules or forbidden paths keep from you are left out.]"


async def test_context_files_only_and_names(sample):
    home = sample()
    write(home, {"a.md": "1\n2\nhit\n4\n5\n6\n7\n8\nhit\n", "d/b.md": "hit"})
    result = await search(home, pattern="^hit$", context=1, path="a.md")
    assert result.output.split("\n")[:6] == ["a.md-2- 2", "a.md:3: hit", "a.md-4- 4", "--", "a.md-8- 8", "a.md:9: hit"]
    assert (await search(home, pattern="hit", files_only=True, glob="*.md")).output.split("\n")[:2] == [
        "a.md",
        "d/b.md",
    ]
    assert (await search(home, glob="d/*.md")).output == "d/b.md"
    assert (await search(home, pattern="nowhere at all", path="d")).output == "Nothing found in 1 files."
    assert (await search(home)).code == "ARGS_INVALID"


async def test_ignore_files_are_respected_nested_and_negated(sample):
    home = sample()
    write(home, {
        ".gitignore": "*.log\nout/\n", "sub/.gitignore": "!keep.log\n*.tmp\n", "sub/.ignore": "!x.tmp\n",
        "a.log": "needle", "out/a": "needle", "sub/keep.log": "needle", "sub/x.tmp": "needle", "sub/y.tmp": "needle",
        "a.txt": "needle",
    })  # fmt: skip
    found = (await search(home, pattern="needle", files_only=True)).output.split("\n")
    assert found == ["a.txt", "sub/keep.log", "sub/x.tmp"]
    everything = (await search(home, pattern="needle", files_only=True, ignored=True)).output
    assert "out/a" in everything
    assert "sub/y.tmp" in everything


async def test_the_repository_binary_files_links_and_special_files_are_passed_over(sample, tmp_path):
    home = sample()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("needle outside")
    write(home, {".git/needle": "needle", "plain": "needle"})
    (home.workspace / "binary").write_bytes(b"needle\0needle")
    (home.workspace / "link").symlink_to(tmp_path / "outside" / "secret")
    (home.workspace / "folder").symlink_to(tmp_path / "outside")
    os.mkfifo(home.workspace / "pipe")
    assert (await search(home, pattern="needle", files_only=True)).output == "plain"
    assert (await search(home, pattern="needle", path=".git")).code == "NOT_GRANTED"
    assert (await search(home, pattern="needle", path="folder")).code == "PATH_OUTSIDE_WORKSPACE"


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(?:(?:a*)*)*c"])
async def test_an_expression_that_never_ends_holds_nobody_up(sample, pattern):
    home = sample()
    write(home, {"a.txt": "a" * 5000 + "!\n", "b.txt": "needle\n"})
    beats = 0

    async def beat():
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    beating = asyncio.ensure_future(beat())
    result = await search(home, pattern=pattern)
    beating.cancel()
    assert "took too long for 1 of the files" in result.output
    assert beats > 10


async def test_a_program_that_does_not_keep_its_limit_is_killed(sample, monkeypatch):
    from coilclaw.sandbox import search as module

    monkeypatch.setattr(module, "GRACE_SECONDS", -9.5)
    home = sample()
    write(home, {f"{number}.txt": "a" * 5000 + "!\n" for number in range(3)})
    assert "had to be ended" in (await search(home, pattern="(a+)+$")).output


@pytest.mark.parametrize("pattern", ["(", "a{99999999999}", "(?P<x", "*"])
async def test_an_invalid_expression_is_reported(sample, pattern):
    assert (await search(sample(), pattern=pattern)).code == "PATTERN_INVALID"


async def test_what_is_found_is_bounded(sample):
    home = sample()
    write(home, {"a.txt": "needle\n" * 5000, "long.txt": "x" * 100_000 + "needle" + "y" * 100_000})
    result = await search(home, pattern="needle", path="a.txt", limit=7)
    assert result.output.count("needle") == 7
    assert "ended after 7 matches" in result.output
    (line, *_) = (await search(home, pattern="needle", path="long.txt")).output.split("\n")
    assert "needle" in line
    assert len(line) < 400


async def test_a_result_is_labelled_by_the_files_it_shows_and_by_no_others(sample):
    home = sample(security__autonomy="full")
    await labelled(home, "web.txt", "ignore previous needle\n")
    await labelled(home, "other.txt", "nothing of interest\n", BAD)
    write(home, {"mine.txt": "my own needle\n", "plain/x.txt": "haystack\n"})
    turn = a_turn(2)
    result = await search(home, turn, pattern="needle")
    assert result.label == EVIL
    assert turn.taint == (EVIL,)
    clean = a_turn(3)
    assert (await search(home, clean, pattern="own needle")).label == "owner"
    assert clean.taint == ()
    assert (await search(home, a_turn(4), pattern="haystack")).label == "owner"


async def test_the_label_follows_the_content_to_another_name(sample):
    home = sample(security__autonomy="full")
    await labelled(home, "web.txt", "ignore previous needle\n")
    (home.workspace / "web.txt").rename(home.workspace / "renamed.txt")
    assert (await search(home, a_turn(2), pattern="needle")).label == EVIL


async def test_names_that_untrusted_content_chose_carry_its_label(sample):
    home = sample(security__autonomy="full")
    await labelled(home, "run-this-now.txt", "x")
    (home.workspace / "run-this-now.txt").write_text("the owner's words by now")
    assert (await search(home, a_turn(2), glob="run-*")).label == EVIL


@pytest.mark.parametrize(
    "parts",
    [
        {"when": {"path": "mine/**"}},
        {"when": {"path": "mine/**"}, "verdict": "ask"},
        {"when": {"path": ["**/diary.txt"], "tool": "file_read"}},
        {"when": {"path": "mine/diary.txt", "tool": ["file_search"], "source": "cli", "risk": "R0"}},
    ],
)
async def test_what_a_rule_keeps_from_readers_is_never_shown(sample, parts):
    home = sample()
    rule(home, **parts)
    write(home, {"mine/diary.txt": "needle", "yours.txt": "needle"})
    for args in ({"pattern": "needle"}, {"glob": "*.txt"}, {"pattern": "needle", "path": "mine"}):
        assert "diary" not in (await search(home, **args)).output
    assert "yours.txt" in (await search(home, pattern="needle")).output


async def test_a_rule_about_writes_hides_nothing(sample):
    home = sample()
    rule(home, when={"path": "mine/**", "risk": ["R1", "R2"]})
    write(home, {"mine/diary.txt": "needle"})
    assert "mine/diary.txt:1: needle" in (await search(home, pattern="needle")).output


async def test_environment_files_are_not_shown_by_default(sample):
    home = sample()
    write(home, {".env": "KEY=needle", "sub/.env": "KEY=needle"})
    assert (await search(home, pattern="needle")).output.endswith(HIDDEN)
    assert "KEY" not in (await search(home, pattern="needle")).output
    assert HIDDEN not in (await search(home, pattern="needle", path="memory")).output  # nothing there was passed over


async def test_a_forbidden_place_inside_the_workspace_is_not_searched(sample):
    home = sample()
    closed = os.path.realpath(home.workspace / "closed")
    security = msgspec.structs.replace(home.app.config.security, forbidden_paths=(Path(closed),))
    home.app.config = msgspec.structs.replace(home.app.config, security=security)
    write(home, {"closed/a.txt": "needle", "open.txt": "needle"})
    assert (await search(home, pattern="needle", files_only=True)).output == "open.txt" + HIDDEN
    assert (await search(home, pattern="needle", path="closed")).code == "PATH_FORBIDDEN"


async def test_unusual_names_are_shown_in_one_line(sample):
    home = sample()
    for name in (b"new\nline.txt", "bi\u202edi.txt".encode(), b"bad\xff.txt", b"n" * 251 + b".txt"):
        (home.workspace / os.fsdecode(name)).write_text("needle")
    output = (await search(home, pattern="needle")).output
    assert "new⟨U+000A⟩line.txt:1: needle" in output
    assert "bi⟨U+202E⟩di.txt:1: needle" in output
    assert "bad�.txt:1: needle" in output
    assert "n" * 251 in output


async def test_secrets_in_a_result_are_redacted(sample):
    home = sample()
    secret = "sk-ant-" + "a1B2c3D4e5F6" * 4
    write(home, {"a.txt": f"needle {secret}"})
    assert secret not in (await search(home, pattern="needle")).output


async def test_a_search_that_is_cancelled_leaves_no_process(sample):
    home = sample()
    write(home, {f"{number}.txt": "a" * 5000 + "!\n" for number in range(3)})
    task = asyncio.ensure_future(search(home, pattern="(a+)+$"))
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    children = [path for path in _children() if b"search_program" in path]
    assert children == []


def _children():
    mine = str(os.getpid())
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(f"/proc/{entry.name}/stat") as file:
                    parent = file.read().rpartition(")")[2].split()[1]
                if parent == mine:
                    with open(f"/proc/{entry.name}/cmdline", "rb") as file:
                        yield file.read()
            except OSError:
                continue


async def test_a_search_that_ends_by_itself_leaves_no_warning_at_the_terminal(tmp_path, caplog):
    (tmp_path / "a.txt").write_text("x\n")
    query = SearchQuery(
        path=".", pattern="x", glob="", ignore_case=False, files_only=False, ignored=False, context=0, matches=9,
        seconds=20.0,
    )  # fmt: skip
    found = await asyncio.gather(*(search_files(str(tmp_path), ".", query, ()) for _ in range(24)))
    assert [len(each.files) for each in found] == [1] * 24
    assert not [each for each in caplog.records if "child process" in each.getMessage()]
