"""A process that works on a run of an SOP and is killed at a chosen boundary; its marks outlive it.

As a program: sop_life.py BASE RUN_ID POINT NUMBER kills itself when POINT is reached for the NUMBERth time.
"""

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import msgspec

from coilclaw.app import EXTENSIONS
from coilclaw.cli.commands.init import make_home, make_parts, make_workspace
from coilclaw.config import Home, load
from coilclaw.features.sops.procedures import Procedures
from coilclaw.packets.ports import ToolOutput
from coilclaw.runtime import Runtime
from coilclaw.store.actions import waiting_actions
from coilclaw.tools.declare import Declared, nothing

SOP = """
name = "life"
[[steps]]
id = "first"
kind = "tool"
tool = "mark"
args = { word = "first" }
[[steps]]
id = "think"
kind = "agent"
prompt = "Mark it."
[[steps]]
id = "note"
kind = "tool"
tool = "file_write"
args = { path = "intel/life.md", content_from = "think" }
[[steps]]
id = "last"
kind = "tool"
tool = "mark"
args = { word = "last" }
"""
GATED = """
name = "gated"
[[steps]]
id = "ask"
kind = "approval"
prompt = "Go on?"
[[steps]]
id = "guarded"
kind = "tool"
tool = "guarded_mark"
args = { word = "guarded" }
[[steps]]
id = "last"
kind = "tool"
tool = "mark"
args = { word = "last" }
"""
SCRIPT = [{"tool_calls": [{"tool": "mark", "args": {"word": "agent"}}]}, {"text": "marked"}]
WORDS = ("first", "agent", "last")


class MarkArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of mark."""

    word: str


def mark_tool(path: Path, name: str = "mark", *, always_ask: bool = False) -> Declared[MarkArgs]:
    """A tool whose effect can be counted and must not be repeated."""

    async def mark(args, context):
        """Write a word down."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(fd, f"{args.word}\n".encode())
        os.close(fd)
        return ToolOutput(text=f"marked {args.word}", label="internal")

    mark.__name__ = name
    return Declared(
        mark,
        MarkArgs,
        effect="WRITE",
        destination="internal",
        idempotent=False,
        always_ask=always_ask,
        touches=nothing,
        summary=lambda args: args.word,
    )


class Life:
    """One process on the home below `base`."""

    def __init__(self, base: Path, reached=lambda _: None) -> None:
        self.base = base
        home = Home(base / "home")
        fresh = not home.root.exists()
        environ = {"HOME": str(base / "user"), "COILCLAW_MOCK_SCRIPT": str(base / "script.json")}
        if fresh:
            base.mkdir(parents=True, exist_ok=True)
            (base / "script.json").write_text(json.dumps(SCRIPT))
            make_home(home)
        config = load(home, environ).config
        if fresh:
            make_parts(home, config)
            make_workspace(home, config.workspace_dir)
            for name, text in (("life", SOP), ("gated", GATED)):
                folder = config.workspace_dir / "sops" / name
                folder.mkdir()
                (folder / "SOP.toml").write_text(text)
        allowed = (*config.channels.cli.tools_allow, "mark", "guarded_mark")
        cli = msgspec.structs.replace(config.channels.cli, tools_allow=allowed)
        config = msgspec.structs.replace(config, channels=msgspec.structs.replace(config.channels, cli=cli))
        self.app = Runtime(home, config, environ, lambda *_: None, reached=reached, extensions=EXTENSIONS)
        self.app.tools["mark"] = mark_tool(base / "marks")
        self.app.tools["guarded_mark"] = mark_tool(base / "marks", "guarded_mark", always_ask=True)
        self.procedures = Procedures(self.app)

    def marks(self) -> Counter[str]:
        path = self.base / "marks"
        return Counter(path.read_text().split()) if path.exists() else Counter()

    def begin(self, name: str = "life") -> str:
        return asyncio.run(self.procedures.start(name)).run_id

    def say_yes(self) -> None:
        """Approve what waits, and leave it to whoever comes to carry it out."""
        for action in waiting_actions(self.app.db.reader, 10):
            approvals = self.app.approvals(self.procedures.conveyor)
            asyncio.run(approvals.approve(action, by="terminal", digest=action.digest))

    def go_on(self, run_id: str):
        return asyncio.run(self.procedures.go_on(run_id))


def main() -> None:
    """Work until the boundary, then die without a word."""
    base, run_id, point, number = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    seen: Counter[str] = Counter()

    def reached(name: str) -> None:
        seen[name] += 1
        if name == point and seen[name] == number:
            os.kill(os.getpid(), signal.SIGKILL)

    Life(base, reached).go_on(run_id)


if __name__ == "__main__":
    main()
