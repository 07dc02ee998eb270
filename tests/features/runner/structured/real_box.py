"""A real coding program in a real open box, with the model proxy before a fake provider."""

import asyncio
import os
from pathlib import Path

from coilclaw.features.runner.adapters.contract import MODEL_PORT, PROGRAM_FOLDER, CliPlace
from coilclaw.features.runner.structured.conversation import LINE_BYTES, StructuredTalk, driver_of
from coilclaw.packets.box import BoxLimits, BoxMount, BoxSpec
from coilclaw.sandbox.box import open_box
from tests.features.runner.model_world import ModelWorld
from tests.features.runner.repo_world import git

HOME = "/session/home"
LIMITS = BoxLimits(
    wall_seconds=None, cpu_seconds=None, memory_bytes=4 << 30, processes=512, open_files=1024, address_space=False,
    output_bytes=LINE_BYTES, file_bytes=1 << 30, write_bytes=64 << 30,
)  # fmt: skip


def clis():
    """Where the real programs are installed; None if the run was not given them."""
    folder = os.environ.get("COILCLAW_TRY_CLIS")
    return Path(folder) if folder else None


class BoxWire:
    """A program in an open box, as its relay would be: what is said on both sides is kept."""

    def __init__(self, box, show=None):
        self.box = box
        self.heard_lines = []
        self.sent = []
        self.answered = {}
        self.shown = [] if show is None else show

    async def send(self, lines, *, about, yes, note=False):
        self.answered[about] = yes
        for line in lines.split(b"\n"):
            self.sent.append(line)
            await self.box.send(line)

    async def lines(self):
        async for line in self.box.lines():
            self.heard_lines.append(line)
            yield line

    async def show(self, text):
        self.shown.append(text)

    async def heard(self, number):
        pass

    async def close(self):
        ended = await self.box.close()
        return f" ({ended.reason or ended.exit_code}). {ended.stderr.decode('utf-8', 'replace')[-2000:]}"


class AskDesk:
    """A desk whose answers a test gives."""

    def __init__(self, ask):
        self.answer = ask

    def was_allowed(self, ask):
        return True

    def is_awaited(self):
        return False


class StructuredWorld(ModelWorld):
    """A session whose program is talked to."""

    def __init__(self, sample, provider, tier="B"):
        super().__init__(sample, provider)
        folder = self.sample.folder
        self.checkout = folder / "checkout"
        self.checkout.mkdir()
        git(self.checkout, "init", "-q")
        (self.checkout / "README.md").write_text("hello\n")
        self.home = folder / "private"
        (self.home / "tmp").mkdir(parents=True)
        self.tier = tier
        self.driver = driver_of(provider)
        self.shown = []
        self.asked = []

    def place(self, prompt):
        cwd = str(self.checkout)
        return CliPlace(home=HOME, cwd=cwd, checkout=cwd, program=PROGRAM_FOLDER, model="fake-model", prompt=prompt)

    def spec(self, launch):
        mounts = [BoxMount(source=str(self.home), at=HOME, writable=True)]
        if clis() is not None:
            mounts.append(BoxMount(source=os.path.realpath(clis()), at=PROGRAM_FOLDER, writable=False))
        for path, text in launch.files:
            (self.home / path).parent.mkdir(parents=True, exist_ok=True)
            (self.home / path).write_text(text)
        own = self.sample.folder / "own"
        if launch.writable:
            own.mkdir(exist_ok=True)
            mounts.append(BoxMount(source=str(own), at=launch.writable, writable=True))
        for at, text in launch.managed:
            folder = self.sample.folder / "managed" / str(Path(at).parent).strip("/").replace("/", "_")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / Path(at).name).write_text(text)
            if str(Path(at).parent) == launch.writable:
                (own / Path(at).name).write_text("")
                mounts.append(BoxMount(source=str(folder / Path(at).name), at=at, writable=False))
            else:
                mounts.append(BoxMount(source=str(folder), at=str(Path(at).parent), writable=False))
        return BoxSpec(
            command=launch.argv,
            workspace=str(self.checkout),
            cwd=str(self.checkout),
            environment=(("HOME", HOME), ("TMPDIR", f"{HOME}/tmp"), ("PATH", "/usr/bin:/bin"), *launch.environment),
            mounts=tuple(dict.fromkeys(mounts)),
            listeners=(MODEL_PORT,),
            limits=LIMITS,
        )

    async def run(self, prompt, ask, serve=None):
        """Talk to the program until it ends."""
        place = self.place(prompt)
        hide, owned = self.app.box_walls()
        box = open_box(hide=hide, owned=owned, prefer=self.tier)
        opened = await box.open(
            self.spec(self.driver.launch(place)), stopped=asyncio.Event().wait, serve=serve or self.proxy.serve
        )
        self.wire = BoxWire(opened, self.shown)

        async def asked(question):
            self.asked.append(question)
            return await ask(question)

        async with asyncio.timeout(240):
            return await StructuredTalk(self.wire, self.driver, place, AskDesk(asked)).run()
