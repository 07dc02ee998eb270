"""Whatever a model, a page or a repository wrote: no command lets it draw on the owner's terminal."""

import ast
import re
from pathlib import Path

import pytest

import coilclaw
from tests.acceptance.conftest import HomeAt

HOSTILE = "x\x1b[31mred\x1b]0;title\x07\x1b[2J\u202eexe\u200b\u2066\u0085\nstatus          allowed"
MOVES = re.compile(
    "[\x00-\x08\x0b-\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]|\x1b(?!\\[[0-9;]*m)"
)
"""All but line ends, tabs, and the colours that tables have of their own at a terminal."""
PLACES = {
    "cli/output.py": {"echo", "secho", "print"},
    "cli/__init__.py": {"echo", "write"},
    "cli/log.py": {"write"},
    "cli/terminal.py": {"write"},
    "features/chat/repl.py": {"write"},
    # These are programs of their own: their output is a file that the watcher keeps, or they run in a box.
    "features/evolve/launch.py": {"print", "write"},
    "features/evolve/template/infra/runner.py": {"print"},
    "features/runner/adapters/fake_cli.py": {"print"},
    "features/runner/adapters/hook.py": {"write"},
    "features/runner/structured/fake_cli.py": {"write"},
}
"""Where something may be put out directly; everything else goes by cli/output.py, which shows what would hide."""


def test_commands_put_nothing_out_but_by_the_room_that_shows_what_hides() -> None:
    root = Path(coilclaw.__file__).parent
    for file in sorted(file for room in ("cli", "features") for file in (root / room).rglob("*.py")):
        name = file.relative_to(root).as_posix()
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if called in ("click.echo", "click.secho", "print", "sys.stdout.write", "sys.stderr.write"):
                assert called.split(".")[-1] in PLACES.get(name, set()), f"{name}, line {node.lineno}: use tell()"


@pytest.fixture
def hostile(home: HomeAt) -> HomeAt:
    """A home in which everything that others may name has a hostile name."""
    calls = [
        {"tool": f"no{HOSTILE}", "args": {}, "justification": HOSTILE},
        {"tool": "file_write", "args": {"path": "a.txt", "content": HOSTILE}, "justification": HOSTILE},
        {"tool": "file_write", "args": {"path": f"d/{HOSTILE}.txt", "content": HOSTILE}},
        {"tool": "shell", "args": {"command": f"echo '{HOSTILE}'"}},
    ]
    home.run(
        "agent",
        "-m",
        HOSTILE.replace("\x00", ""),
        env=home.script({"text": HOSTILE, "tool_calls": calls}, {"text": HOSTILE}),
    )
    name = HOSTILE.replace("\n", " ")
    (home.workspace / "policies" / f"{name}.json").write_text("{")
    (home.workspace / "sops" / name).mkdir(parents=True)
    (home.workspace / "sops" / name / "SOP.toml").write_text("name = 1")
    return home


@pytest.mark.slow
def test_nothing_that_others_wrote_moves_the_cursor_hides_or_turns_around(hostile: HomeAt) -> None:
    home = hostile
    actions = [row[0] for row in home.rows("SELECT action_id FROM proposed_actions")]
    (rejected, *_) = [row[0] for row in home.rows("SELECT action_id FROM proposed_actions WHERE status = 'PENDING'")]
    home.ok("approvals", "reject", rejected, "--reason", HOSTILE)
    commands = [["approvals", "list"], ["actions", "list"], ["receipt", "list"], ["audit", "list"], ["memory", "list"]]
    commands += [["sop", "list"], ["doctor"], ["policy", "show"], ["job", "list"], ["schedule", "list"]]
    commands += [["receipt", "show", "1"], *(["approvals", "show", each] for each in actions)]
    commands += [["audit", "explain", each] for each in actions]
    commands += [[*command, "--json"] for command in commands]
    assert actions
    for command in commands:
        text = home.sit(*command).end().out.replace("\r\n", "\n")
        found = MOVES.search(text)
        assert found is None, (command, text[max(0, found.start() - 80) : found.end() + 20])
    piped = home.ok("receipt", "show", "1").out
    assert MOVES.search(piped) is None
    assert "\nstatus          allowed" not in piped
