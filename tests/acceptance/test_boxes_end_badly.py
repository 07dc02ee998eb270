"""Commands that run away end as failed receipts that say why, and leave no process behind."""

import secrets

import pytest

from tests.acceptance.conftest import HomeAt, sleepers

HOG = "exec python3 -I -c 'held = []\nwhile True: held.append(bytearray(16 << 20))'"

FULL = {"COILCLAW_SECURITY_AUTONOMY": "full"}
"""Some of these cannot be followed in the text, so less autonomy would refuse them before any box."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "codes", "reason"),
    [
        # where nobody counts but a busy machine, the bomb may be over, all but a few of it, before the limit is seen
        ("sh bomb.sh", {"PROCESS_LIMIT", "LEFT_BEHIND"}, " process"),
        # where no control group can be made, the program itself is refused the memory
        (HOG, {"MEMORY_LIMIT", "EXIT_NONZERO"}, "emory"),
        # a machine that is busy may not see so much in that time
        ("yes", {"OUTPUT_LIMIT", "TOOL_TIMEOUT"}, "It was stopped after"),
        ("(setsid sh -c '(sleep TOKEN &)' &); sleep 0.1; echo done", {"LEFT_BEHIND"}, "must wait for what it starts"),
        ("sleep TOKEN & exit 0", {"LEFT_BEHIND"}, "still running"),
    ],
    ids=["a fork bomb", "a memory hog", "an endless writer", "a daemon", "a forgotten child"],
)
def test_what_a_box_had_to_end_is_failed_with_the_reason(
    home: HomeAt, command: str, codes: set[str], reason: str
) -> None:
    (home.workspace / "bomb.sh").write_text("b() { b | b & }; b\n")  # as a command line it would be refused
    token = f"{3600 + secrets.randbelow(10**6)}.{secrets.randbelow(10**9)}"
    ran = home.tool("shell", {"command": command.replace("TOKEN", token)}, "--yes", "--output", "json", env=FULL)
    assert ran.rc == 1, ran
    told = ran.json()
    assert told["result"]["success"] is False
    assert reason in told["result"]["output"]
    (receipt,) = home.receipts()
    assert receipt["status"] == "failed"
    assert receipt["code"] in codes
    assert home.rows("SELECT status FROM proposed_actions") == [("FAILED",)]
    assert not sleepers(token)


def test_a_command_that_waits_for_its_children_succeeds(home: HomeAt) -> None:
    ran = home.tool("shell", {"command": "sleep 0.1 & sleep 0.1 & wait; echo done"}, "--yes", "--output", "json")
    assert ran.rc == 0, ran
    assert [receipt["status"] for receipt in home.receipts()] == ["allowed"]
