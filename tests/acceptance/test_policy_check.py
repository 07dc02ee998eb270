"""`policy check`: the full decision, and nothing done."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coilclaw.packets.decision import Decision
from tests.acceptance.conftest import HomeAt, one_sentence

pytestmark = pytest.mark.slow


FIELDS = {field.name for field in msgspec.structs.fields(Decision)}


def call(tool: str, **args: Any) -> str:
    return json.dumps({"tool": tool, "args": args})


def everything(home: HomeAt) -> dict[str, bytes]:
    """Every byte in the home and the workspace."""
    tops = (home.root, home.workspace)
    return {str(path): path.read_bytes() for top in tops for path in sorted(Path(top).rglob("*")) if path.is_file()}


def test_the_decision_carries_every_field(home: HomeAt) -> None:
    decision = home.ok("policy", "check", "--json", call("shell", command="touch a")).json()
    assert set(decision) == FIELDS
    assert decision["verdict"] == "ask"
    assert (decision["risk"], decision["risk_level"], decision["risk_word"]) == ("R2", "R2", "medium")
    assert (decision["risk_class"], decision["lane"]) == ("WRITE", "A")
    assert (decision["allowed"], decision["requires_approval"]) == (False, True)
    assert decision["code"]
    assert decision["rule"]
    assert decision["reasons"]
    assert len(decision["policy_hash"]) == 64


def test_nothing_is_stored_and_nothing_runs(used: HomeAt) -> None:
    used.run("receipt", "list")
    before = everything(used)
    lines = "\n".join(
        [call("file_write", path="made.txt", content="x"), call("shell", command="touch made.txt"), call("time")]
    )
    assert used.ok("policy", "check", "--stdin", stdin=lines).out.count("\n") == 3
    used.ok("policy", "check", "--json", call("file_write", path="intel/made.md", content="x"))
    assert everything(used) == before


def test_one_decision_per_line_in_order(home: HomeAt) -> None:
    calls = [
        (call("time"), "allow"),
        (call("file_read", path="SYSTEM.md"), "allow"),
        (call("file_write", path="notes.txt", content="x"), "ask"),
        (call("file_write", path="SYSTEM.md", content="x"), "ask"),
        (call("file_write", path=".git/config", content="x"), "deny"),
        (call("shell", command="rm -rf /"), "deny"),
        (call("shell", command="python3 -c 'print(1)'"), "ask"),
        (call("shell", command="echo 'rm -rf /'"), "allow"),
        (call("http", url="http://169.254.169.254/"), "deny"),
        (call("no_such_tool"), "deny"),
        ("this is not JSON", "deny"),
        ('{"tool": "time", "args": [1]}', "deny"),
        ('{"args": {}}', "deny"),
    ]
    ran = home.ok("policy", "check", "--stdin", stdin="\n".join(line for line, _ in calls) + "\n")
    told = [json.loads(line) for line in ran.out.splitlines()]
    assert [each["verdict"] for each in told] == [verdict for _, verdict in calls]
    for each, (line, _) in zip(told[:10], calls[:10], strict=True):
        assert set(each) == FIELDS, line


def test_full_autonomy_still_asks_for_what_cannot_be_followed(home: HomeAt) -> None:
    home.configure('[security]\nautonomy = "full"\n')
    asked = [
        "python3 -c 'print(1)'",
        "git -c core.pager=sh log",
        "sleep infinity",
        'eval "$X"',
        "$(cat name) x",
        "find . -exec sh {} ;",
    ]
    ran = home.ok("policy", "check", "--stdin", stdin="\n".join(call("shell", command=each) for each in asked))
    assert [json.loads(line)["verdict"] for line in ran.out.splitlines()] == ["ask"] * len(asked)
    plain = home.ok("policy", "check", "--json", call("shell", command="grep -rn 'rm -rf /' .")).json()
    assert plain["verdict"] == "allow"


def test_the_exit_code_maps_the_verdict_only_when_asked(home: HomeAt) -> None:
    for text, code in (
        (call("time"), 0),
        (call("file_write", path="a", content="b"), 4),
        (call("shell", command="dd"), 3),
    ):
        assert home.run("policy", "check", "--exit-code", "--json", text).rc == code
        assert home.run("policy", "check", "--json", text).rc == 0


def test_the_exit_code_of_many_lines_is_that_of_the_strictest(home: HomeAt) -> None:
    deny, ask, allow = call("shell", command="dd"), call("file_write", path="a", content="b"), call("time")
    for lines, code in (([allow, ask, deny], 3), ([deny, ask], 3), ([allow, ask], 4), ([allow], 0)):
        assert home.run("policy", "check", "--exit-code", "--stdin", stdin="\n".join(lines)).rc == code, lines


def test_taint_and_source_can_be_tried(home: HomeAt) -> None:
    skill = {"tool": "file_write", "args": {"path": "skills/a/SKILL.md", "content": "x"}}
    assert home.ok("policy", "check", "--json", json.dumps(skill)).json()["verdict"] == "ask"
    tainted = json.dumps({**skill, "taint": ["untrusted:example.com"]})
    assert home.ok("policy", "check", "--json", tainted).json()["code"] == "PATH_TAINTED"


def test_a_call_that_is_none_is_one_sentence(home: HomeAt) -> None:
    one_sentence(home.run("policy", "check", "--json", "{"), 2)
    one_sentence(home.run("policy", "check"), 2, "--stdin")
    one_sentence(home.run("policy", "check", "--json", '{"tool": "time", "colour": 1}'), 2, "colour")


def test_the_policy_hash_tells_apart_every_layer(home: HomeAt) -> None:
    def policy_hash(**env: str) -> str:
        return home.ok("policy", "check", "--json", call("time"), env=env).json()["policy_hash"]

    plain = policy_hash()
    assert policy_hash() == plain
    assert policy_hash(COILCLAW_SECURITY_AUTONOMY="full") != plain
    assert policy_hash(COILCLAW_SECURITY_ALLOWED_DOMAINS="example.com") != plain
    (home.workspace / "policies" / "more.json").write_text('{"version": 1, "rules": []}')
    assert policy_hash() != plain
