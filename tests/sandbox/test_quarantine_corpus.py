"""What a run made that other programs would obey is moved away, and nothing else: attacks and harmless neighbours.

Every row runs in a real box of each tier, for root and for an ordinary user.
"""

import json
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sandbox.conftest import Interpreter, Runner

ROWS = [
    {"before": "", "gone": [], "stay": [], "same": [], **json.loads(line)}
    for line in (Path(__file__).parents[1] / "corpora" / "executed.jsonl").read_text(encoding="utf-8").splitlines()
]

SERVER = """
import asyncio, datetime, json, sys
from pathlib import Path
import msgspec
from coilclaw.packets.box import BoxLimits, BoxSpec
from coilclaw.sandbox.box import open_box
from coilclaw.sandbox.hard_links import unlink_from_outside
from coilclaw.sandbox.quarantine import Quarantine

def clock():
    return datetime.datetime.now(datetime.timezone.utc)

boxes = {}

async def answer(asked):
    box = boxes.setdefault(asked["tier"], open_box(hide=(), prefer=asked["tier"]))
    workspace = asked["workspace"]
    quarantine = Quarantine(Path(workspace), Path(asked["folder"]), clock)
    survey = quarantine.begin("act_1", tainted=False, names=True, allowed=tuple(asked["allowed"]), links=True)
    unlink_from_outside(Path(workspace), survey.linked)
    repositories = [path for path in quarantine.repositories("act_1") if not (Path(workspace) / path).is_symlink()]
    spec = BoxSpec(
        command=asked["command"], workspace=workspace, cwd=workspace,
        read_only=(".git", *repositories), limits=BoxLimits(wall_seconds=60.0, cpu_seconds=60),
    )
    result = await box.run(spec)
    found = quarantine.end("act_1")
    return {
        "said": (result.stdout + result.stderr).decode("utf-8", "replace"),
        "items": [] if found is None else [[item.reason, item.path] for item in found.items],
        "left": [path.name for path in (Path(asked["folder"]) / "runs").iterdir()],
    }

for line in sys.stdin:
    print(json.dumps(asyncio.run(answer(json.loads(line)))), flush=True)
"""


@pytest.fixture(scope="module")
def inspectors(interpreters: Callable[[int], Interpreter]) -> Iterator[Callable[[int], "subprocess.Popen[bytes]"]]:
    """Starts, once for each uid, the process that runs boxes and inspects what they made."""
    started: dict[int, subprocess.Popen[bytes]] = {}

    def inspector(uid: int) -> "subprocess.Popen[bytes]":
        if uid not in started:
            started[uid] = interpreters(uid).start(SERVER)
        return started[uid]

    yield inspector
    for process in started.values():
        process.communicate(timeout=280)


class Ground:
    """A workspace with a repository of its own, and the quarantine beside it."""

    def __init__(self, box: Runner, inspector: Callable[[int], "subprocess.Popen[bytes]"]) -> None:
        self.box = box
        self.workspace = box.workspace
        self.process = inspector(box.uid)
        self.owner("git init -q .")
        (box.ground / "home").mkdir(mode=0o700)
        box.own(box.ground / "home")

    def owner(self, command: str) -> str:
        """What the owner does, outside any box."""
        other = (
            {"user": self.box.uid, "group": self.box.uid, "extra_groups": []} if self.box.uid != os.geteuid() else {}
        )
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.box.ground), "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@localhost", "GIT_COMMITTER_NAME": "t",
            "GIT_COMMITTER_EMAIL": "t@localhost",
        }  # fmt: skip
        done = subprocess.run(
            ["/bin/sh", "-c", command], cwd=self.workspace, env=environment, capture_output=True, text=True, **other
        )
        return done.stdout + done.stderr

    def run(self, command: str, *, allowed: tuple[str, ...] = ()) -> dict[str, object]:
        asked = {
            "tier": self.box.tier, "workspace": str(self.workspace), "command": command, "allowed": allowed,
            "folder": str(self.box.ground / "home" / "quarantine"),
        }  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(asked).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def state(self, path: str) -> tuple[int, bytes]:
        """What stands at a path: its kind and mode, and what it holds or where it leads."""
        whole = self.workspace / path
        mode = whole.lstat().st_mode
        return mode, os.fsencode(os.readlink(whole)) if stat.S_ISLNK(mode) else whole.read_bytes()

    def obeyed(self) -> set[str]:
        """The repositories that the owner's git finds in any folder, but for the workspace's own.

        Git looks for `.git` and, in a bare one, `HEAD`: where neither stands, it finds what it finds further up.
        """
        script = """
        find . \\( -name .git -prune -o -name HEAD \\) -printf "%h\\0" | while IFS= read -r -d '' d; do
            at=$(GIT_CEILING_DIRECTORIES="$PWD" git -C "$d" rev-parse --absolute-git-dir 2>/dev/null) || continue
            [ "$at" = "$PWD/.git" ] || echo "$at"
        done
        """
        return set(
            self.owner(f"bash -c '{script.replace(chr(39), chr(39) + chr(92) + chr(39) + chr(39))}'").splitlines()
        )


@pytest.fixture
def ground(box: Runner, inspectors: Callable[[int], "subprocess.Popen[bytes]"]) -> Ground:
    return Ground(box, inspectors)


@pytest.mark.parametrize("row", ROWS, ids=[row["why"].replace(" ", "-") for row in ROWS])
def test_every_row_of_the_corpus_ends_as_it_should(ground: Ground, row: dict[str, object]) -> None:
    ground.owner(row["before"])
    same = {path: ground.state(path) for path in row["same"]}
    obeyed = ground.obeyed()

    answer = ground.run(row["command"])

    reasons = sorted({reason for reason, _ in answer["items"]})
    assert reasons == row["expect"], answer
    assert [path for path in row["gone"] if os.path.lexists(ground.workspace / path)] == []
    assert [path for path in row["stay"] if not os.path.lexists(ground.workspace / path)] == [], answer
    assert {path: ground.state(path) for path in row["same"]} == same
    assert ground.obeyed() == obeyed
    assert answer["left"] == []


def test_the_corpus_holds_enough_of_both_kinds() -> None:
    assert len([row for row in ROWS if row["expect"]]) >= 60
    assert len([row for row in ROWS if not row["expect"]]) >= 20
    assert len({row["why"] for row in ROWS}) == len(ROWS)


def test_names_that_the_owner_was_asked_about_stay(ground: Ground) -> None:
    answer = ground.run(
        "echo run > .envrc; mkdir .vscode; echo 1 > .vscode/t; echo x > .npmrc", allowed=(".envrc", ".vscode")
    )

    assert answer["items"] == [["name", ".npmrc"]]
    assert (ground.workspace / ".envrc").exists()
    assert (ground.workspace / ".vscode" / "t").exists()


def test_a_hard_link_out_of_the_workspace_is_not_written_through(ground: Ground) -> None:
    outside = ground.box.ground / "outside.txt"
    ground.owner(f"echo mine > {outside}; chmod 640 {outside}; ln {outside} in.txt; mkdir d; ln {outside} d/also.txt")
    before = outside.stat()

    answer = ground.run("echo evil > in.txt; echo evil >> d/also.txt; cat in.txt d/also.txt")

    assert answer["said"] == "evil\nmine\nevil\n"
    assert outside.read_text() == "mine\n"
    now = outside.stat()
    assert (now.st_mtime_ns, now.st_nlink) == (before.st_mtime_ns, 1)
    assert stat.S_IMODE((ground.workspace / "in.txt").stat().st_mode) == 0o640


def test_hard_links_within_the_workspace_are_left_alone(ground: Ground) -> None:
    ground.owner("echo one > a; ln a b")

    ground.run("echo two > a")

    assert (ground.workspace / "b").read_text() == "two\n"
    assert (ground.workspace / "a").stat().st_nlink == 2
