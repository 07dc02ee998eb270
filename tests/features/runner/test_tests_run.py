"""Tests that a coding program runs are told of, with what they counted."""

import msgspec
import pytest

from coilclaw.features.runner.adapters.contract import HookAsk
from coilclaw.features.runner.store import load_session, put_session
from coilclaw.features.runner.tests_run import TestCounts, counts_of, is_test_run
from tests.features.runner.session_world import SessionWorld
from tests.features.runner.test_desk import desk_of


@pytest.mark.parametrize(
    "command",
    ["pytest -q", "cd a && python3 -m pytest x.py", "npm test", "pnpm run test", "cargo test --offline", "go test .",
     "make test", ".venv/bin/pytest", "npx vitest run", "(jest)", "./gradlew test"],
)  # fmt: skip
def test_test_runs_are_known(command):
    assert is_test_run(command)


@pytest.mark.parametrize("command", ["cat pytest.ini", "git commit -m pytests", "npm run testing", "echo", "make x"])
def test_other_commands_are_none(command):
    assert not is_test_run(command)


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        ("== 1 failed, 3 passed, 2 skipped in 0.1s ==", (3, 1, 2)),
        ("test result: FAILED. 5 passed; 2 failed; 1 ignored; 0 measured", (5, 2, 1)),
        ("Tests:       1 failed, 4 passed, 5 total\nTime: 1 s", (4, 1, 0)),
        ('{"stdout": "x\\n2 passed in 1s\\n"}', (2, 0, 0)),
        ("nothing", (0, 0, 0)),
        ("9" * 500_000 + " passed", (0, 0, 0)),
    ],
)
def test_counts_are_read_from_the_last_summary(output, wanted):
    assert counts_of(output) == TestCounts(passed=wanted[0], failed=wanted[1], skipped=wanted[2])


async def test_tests_of_a_program_are_told_of_as_they_begin_and_end(sample, tmp_path):
    world = SessionWorld(sample)
    desk = desk_of(world, tmp_path)
    row = msgspec.structs.replace(load_session(world.app.db.reader, desk._id), state="RUNNING")
    world.app.db.write_now(lambda tx: put_session(tx, row))
    await desk._tell_tests(HookAsk(kind="command", tool="Bash", call_id="c0", command="pytest"), allowed=False)
    await desk._tell_tests(HookAsk(kind="command", tool="Bash", call_id="c1", command="pytest -q"), allowed=True)
    for text in ("1 failed, 2 passed in 1s", "9 passed"):
        await desk._tell_tests(HookAsk(kind="result", tool="Bash", call_id="c1", text=text), allowed=True)
    (begun,) = world.events(desk._id, "TEST_RUN_STARTED")
    (ended,) = world.events(desk._id, "TEST_RUN_FINISHED")
    assert begun.data == {"command": "pytest -q"}
    counts = {name: ended.data[name] for name in ("command", "passed", "failed", "skipped")}
    assert counts == {"command": "pytest -q", "passed": 2, "failed": 1, "skipped": 0}
