"""A real Chromium with a virtual authenticator. Where there is none, tests are skipped; in CI that is a failure."""

import os
import shutil
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium_path():
    """Where Chromium is; skips the test when there is none and nobody counts on it."""
    named = os.environ.get("COILCLAW_TEST_CHROMIUM", "")
    for found in (named, *(shutil.which(name) for name in NAMES)):
        if found and Path(found).exists():
            return found
    if os.environ.get("CI"):
        pytest.fail("there is no Chromium, and CI counts on it")
    pytest.skip("there is no Chromium here")


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
