"""A home in a temporary folder, opened in process, with a prepared model and box."""

import contextlib
import functools
import json
import os
import re
import stat
import subprocess
import tempfile
from pathlib import Path

import msgspec

from coilclaw.app import EXTENSIONS
from coilclaw.cli.commands.init import make_home, make_parts, make_workspace
from coilclaw.config import Home, load
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import ToolCall
from coilclaw.packets.card import Answer
from coilclaw.runtime import Runtime
from coilclaw.sandbox.fake_box import FakeBox


class Owner:
    """Somebody to ask, whose answers the test decides."""

    def __init__(self, approved=True, reason=""):
        self.answer = Answer(approved=approved, reason=reason)
        self.cards = []

    async def __call__(self, card):
        self.cards.append(card)
        return self.answer


MADE = "TESTS_MADE_HOME"
"""The variable that names a folder for the home that is made once; conftest sets it, and processes of tests inherit."""


def make(folder: Path) -> None:
    """A home and its workspace, as `init` makes them."""
    home = Home(folder / "home")
    make_home(home)
    config = load(home, {"HOME": str(folder / "user")}).config
    make_parts(home, config)
    make_workspace(home, config.workspace_dir)
    slim(config.workspace_dir)


def slim(workspace: Path) -> None:
    """Keep git's objects in one file, and no sample hooks: the same repository, with half as many files to copy."""
    if (workspace / ".git").is_dir():
        subprocess.run(["git", "-C", workspace, "repack", "-a", "-d", "-q"], check=True, timeout=280)
        for sample in (workspace / ".git" / "hooks").glob("*.sample"):
            sample.unlink()


@functools.cache
def parts(source: Path) -> list[tuple[str, int, bytes | str | None, int]]:
    """What a folder holds: names, modes, contents (none for a folder, text for a link), and when files were changed."""
    found: list[tuple[str, int, bytes | str | None, int]] = []
    for folder, folders, files in os.walk(source):
        found.append((folder[len(str(source)) + 1 :], stat.S_IMODE(os.stat(folder).st_mode), None, 0))
        for path in (Path(folder, name) for name in (*folders, *files)):
            if path.is_symlink():
                found.append((str(path.relative_to(source)), 0, os.readlink(path), 0))
            elif path.is_file():
                status = path.stat()
                mode = stat.S_IMODE(status.st_mode)
                found.append((str(path.relative_to(source)), mode, path.read_bytes(), status.st_mtime_ns))
    return found


def put(source: Path, target: Path) -> None:
    """Copy a folder that stays as it is, and is read once: thousands of tests begin with this."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for name, mode, content, changed in parts(source):
        place = os.path.join(target, name)
        if content is None:
            os.mkdir(place)
            os.chmod(place, mode)
        elif isinstance(content, str):
            os.symlink(content, place)
        else:
            with open(place, "xb", buffering=0) as file:
                file.write(content)
                os.fchmod(file.fileno(), mode)
            os.utime(place, ns=(changed, changed))


def move_in(folder: Path) -> None:
    """Copy the home that was made once; only the link to the workspace names its own place."""
    if MADE not in os.environ:
        make(folder)
        return
    made = Path(os.environ[MADE]) / "made"
    if not made.exists():
        fresh = Path(tempfile.mkdtemp(dir=made.parent))
        make(fresh)
        with contextlib.suppress(OSError):  # somebody else was faster
            fresh.rename(made)
    put(made / "home", folder / "home")
    link = Home(folder / "home").workspace_link
    workspace = folder / Path(os.readlink(link)).name
    put(made / workspace.name, workspace)
    link.unlink()
    link.symlink_to(workspace)
    config = workspace / ".git" / "config"
    if config.exists():  # it says which home the workspace belongs to
        owner = f"\thome = {os.path.realpath(folder / 'home')}\n"
        config.write_text(re.sub(r"\thome = .*\n", lambda _: owner, config.read_text()))


class Sample:
    """An App on a fresh home."""

    def __init__(self, folder: Path, *, environ=None, **overrides) -> None:
        self.folder = folder
        self.home = Home(folder / "home")
        self.events = []
        # Jobs write the workspace and ask, unless a test is about pull requests.
        forge = {} if "forge__enabled" in overrides or "forge" in overrides else {"COILCLAW_FORGE_ENABLED": "false"}
        self.environ = {"HOME": str(folder / "user"), **forge, **(environ or {})}
        if not self.home.root.exists():
            move_in(folder)
        config = load(self.home, self.environ).config
        if not config.workspace_dir.exists():  # it was asked for elsewhere
            make_workspace(self.home, config.workspace_dir)
        for key, value in overrides.items():
            section, _, name = key.partition("__")
            part = msgspec.structs.replace(getattr(config, section), **{name: value}) if name else value
            config = msgspec.structs.replace(config, **{section: part})
        self.app = Runtime(
            self.home,
            config,
            self.environ,
            lambda level, event, fields: self.events.append((event, fields)),
            extensions=EXTENSIONS,
        )
        self.box = FakeBox()
        self.app.open_box = lambda: self.box
        self.owner = Owner()
        self.workspace = config.workspace_dir

    def script(self, *replies):
        path = self.folder / "script.json"
        path.write_text(json.dumps(list(replies)))
        self.environ["COILCLAW_MOCK_SCRIPT"] = str(path)

    def conveyor(self):
        return self.app.conveyor(self.owner)

    async def call(self, tool, turn=None, key=None, **args):
        conveyor = self.conveyor()
        turn = turn or Turn("turn_1", "", "cli")
        action = conveyor.intake.propose(ToolCall.of(tool, args), turn, key or f"key-{len(self.events)}")
        return await conveyor.carry(action, turn, stored=False)

    async def approve(self, action_id, by="terminal"):
        """Say yes to a waiting action and carry it out; the outcome, or None when it is held or in other hands."""
        from coilclaw.gate.conveyor import Outcome
        from coilclaw.store.actions import load_action

        conveyor = self.conveyor()
        action = load_action(self.app.db.reader, action_id)
        answered = await self.app.approvals(conveyor).approve(action, by=by, digest=action.digest, seen=None)
        return answered if isinstance(answered, Outcome) else await conveyor.execute(answered)

    def receipts(self):
        from coilclaw.ledger.chain import list_receipts

        return list(reversed(list_receipts(self.app.db.reader, 1000)))

    def statuses(self):
        return [row[0] for row in self.app.db.reader.execute("SELECT status FROM proposed_actions ORDER BY rowid")]

    def event_names(self):
        return [event for event, _ in self.events]

    def close(self):
        self.app.close()
