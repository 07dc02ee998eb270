"""A process that serves chat until it is killed. As a program: turns_life.py FOLDER prints {"port", "token"} first."""

import asyncio
import json
import sys
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import httpx

from tests.features.chat.talking import talking
from tests.home import Sample

ROOT = Path(__file__).resolve().parents[3]


async def live(folder):
    home = Sample(Path(folder))
    home.environ["COILCLAW_MOCK_SCRIPT"] = str(home.folder / "script.json")
    async with talking(home, grace=30) as site:
        sys.stdout.write(json.dumps({"port": site.port, "token": site.token}) + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


@contextmanager
def living(folder):
    """Start such a process; gives a client of it and the process, which is killed at the latest at the end."""
    command = [sys.executable, "-m", "tests.features.chat.turns_life", str(folder)]
    with Popen(command, cwd=ROOT, stdout=PIPE) as process:
        try:
            told = json.loads(process.stdout.readline())
            with httpx.Client(
                base_url=f"http://localhost:{told['port']}",
                headers={"Authorization": f"Bearer {told['token']}"},
                timeout=280,
                trust_env=False,
            ) as http:
                yield http, process
        finally:
            process.kill()
            process.wait()


if __name__ == "__main__":
    asyncio.run(live(sys.argv[1]))
