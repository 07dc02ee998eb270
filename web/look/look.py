"""Look at the built panel in Chromium against the made-up API: screenshots, accessibility, the content security policy.

`scripts/panel look [FOLDER]` writes PNGs for phone and desktop, light and dark, and fails when axe finds a violation, the
policy refuses something, or the page writes an error to its console.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, sync_playwright

WEB = Path(__file__).resolve().parent.parent
BUILD = WEB.parent / "src" / "coilclaw" / "panel"
AXE = (WEB / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
SIZES = {"phone": (375, 812), "desktop": (1440, 900)}
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@contextlib.contextmanager
def served() -> Iterator[str]:
    """The panel and the made-up API on a free port."""
    node = os.environ["PANEL_NODE"]
    process = subprocess.Popen([node, str(WEB / "look" / "serve.ts"), str(BUILD)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(timeout=10)


class Look:
    """One browser window of one size and theme, and what was wrong in it."""

    def __init__(self, browser: Browser, address: str, folder: Path, size: str, theme: str) -> None:
        self.address, self.folder, self.size, self.theme = address, folder, size, theme
        self.faults: list[str] = []
        width, height = SIZES[size]
        phone = size == "phone"
        self.context: BrowserContext = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if theme == "dark" else "light",
            has_touch=phone,
            is_mobile=phone,
            device_scale_factor=2 if phone else 1,
            service_workers="allow",
        )
        self.page: Page = self.context.new_page()
        self.page.on("console", lambda message: self._heard(message.type, message.text))
        self.page.on("pageerror", lambda error: self.faults.append(f"{self._name('')} threw: {error}"))
        session: CDPSession = self.context.new_cdp_session(self.page)
        session.send("WebAuthn.enable")
        session.send(
            "WebAuthn.addVirtualAuthenticator",
            {
                "options": {
                    "protocol": "ctap2",
                    "transport": "internal",
                    "hasResidentKey": True,
                    "hasUserVerification": True,
                    "isUserVerified": True,
                    "automaticPresenceSimulation": True,
                }
            },
        )

    def _heard(self, kind: str, text: str) -> None:
        # A refused request is part of the story (401 before pairing); the policy's refusals are not.
        if kind == "error" and "Failed to load resource" not in text:
            self.faults.append(f"{self._name('')} console: {text}")

    def _name(self, scene: str) -> str:
        return f"{self.size}-{self.theme}-{scene}".rstrip("-")

    def begin(self, **start: object) -> None:
        """A made-up server in a given state."""
        request = urllib.request.Request(f"{self.address}fake/start", data=json.dumps(start).encode(), method="POST")
        urllib.request.urlopen(request).close()

    def passkey(self) -> None:
        """Give the browser's authenticator a passkey for this place."""
        self.page.goto(f"{self.address}icon.svg")
        self.page.evaluate(
            """() => navigator.credentials.create({publicKey: {challenge: new Uint8Array(32), rp: {id: 'localhost',
            name: 'x'}, user: {id: new Uint8Array([1]), name: 'x', displayName: 'x'}, pubKeyCredParams: [{type:
            'public-key', alg: -7}], authenticatorSelection: {residentKey: 'required', userVerification: 'required'}}})
            .then(() => null)"""
        )

    def open(self, fragment: str) -> None:
        """Open the panel anew at a place."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}{fragment}")
        self.page.locator("#app > *").first.wait_for(state="attached")

    def shoot(self, scene: str) -> None:
        """Keep a picture, and hold what is in it against the rules of accessibility."""
        self.page.wait_for_timeout(700)
        self.page.screenshot(path=str(self.folder / f"{self._name(scene)}.png"))
        self.page.evaluate(AXE)
        found = self.page.evaluate(
            "tags => axe.run({runOnly: {type: 'tag', values: tags}}).then(result => result.violations.map(each =>"
            " each.id + ': ' + each.help + ' ' + each.nodes.map(node => node.target.join(' ') + ' ' + (node.any[0]?.message ?? '')).slice(0, 4).join(' | ')))",
            TAGS,
        )
        self.faults += [f"{self._name(scene)} axe {each}" for each in found]
        wide = self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
        if wide:
            self.faults.append(f"{self._name(scene)} is wider than the screen")


def first_run(look: Look) -> None:
    """From a code to the guided empty state."""
    look.begin(paired=False, passkeys=0, fresh=True)
    look.open("")
    look.shoot("1-pair")
    look.page.get_by_label("Pairing code").fill("wrongone")
    look.page.get_by_role("button", name="Pair", exact=True).click()
    look.page.get_by_role("alert").wait_for()
    look.shoot("1-pair-refused")
    look.open("#pair=abcd-efgh")
    look.page.get_by_role("button", name="Pair", exact=True).click()
    look.page.get_by_role("heading", name="Add your passkey").wait_for()
    look.shoot("2-passkey")
    look.page.get_by_role("button", name="Create passkey").click()
    look.page.get_by_role("heading", name="Get to your first approved action").wait_for()
    look.shoot("3-first-steps")


def overview(look: Look) -> None:
    """The first screen of every day."""
    look.begin()
    look.open("#/")
    look.page.get_by_text("Did the work get done?").first.wait_for()
    look.shoot("4-overview")


def approving(look: Look) -> None:
    """A list, a marked card, an answer with a passkey, the next one, a no with a reason."""
    look.begin()
    look.passkey()
    look.open("#/approvals")
    look.page.get_by_text("Write notes/week.md").first.wait_for()
    look.shoot("5-approvals")
    look.open("#/approvals/act_webhook")
    look.page.get_by_role("button", name="Approve with passkey").wait_for()
    look.shoot("6-card")
    look.page.wait_for_timeout(700)
    look.page.get_by_role("button", name="Approve with passkey").click()
    look.page.get_by_role("heading", name="Write notes/week.md").wait_for()
    look.shoot("7-next")
    look.page.get_by_role("button", name="Reject").click()
    look.page.get_by_label("Reason").wait_for()
    look.shoot("8-reject")
    look.page.get_by_role("button", name="Cancel").click()
    look.open("#/approvals/act_nowhere")
    look.page.get_by_text("This could not be loaded").wait_for()
    look.shoot("8-not-there")


def chatting(look: Look) -> None:
    """Conversations, one with calls, and an answer that is streamed."""
    look.begin()
    look.open("#/chat")
    look.page.get_by_text("Plan the week").first.wait_for()
    look.shoot("9-threads")
    look.open("#/chat/conv_mail")
    look.page.get_by_text("I can tell accounting").wait_for()
    look.page.get_by_text("file_read").click()
    look.shoot("a-chat")
    look.page.get_by_label("Message", exact=True).fill("What files are here?")
    look.page.get_by_role("button", name="Send").click()
    look.page.get_by_text("There are three").wait_for()
    look.shoot("a-streaming")
    look.page.get_by_text("Say which one you want to see.").wait_for()
    look.open("#/chat/conv_log")
    look.page.locator(".prose strong").wait_for()
    left = look.page.locator(".prose").evaluate(
        "prose => [...prose.querySelectorAll('img,script,style,form,iframe,svg,button,[onerror],[onload]')].length"
        " + [...prose.querySelectorAll('a[href]')].filter(a => !/^https?:/.test(a.href) || a.rel !== 'noopener noreferrer').length"
        " + [...prose.querySelectorAll('a[href^=\"#\"]')].length"
    )
    if left or look.page.title().strip().isdigit():
        look.faults.append(f"{look.size}: hostile markdown came through ({left})")
    look.open("#/chat/new")
    look.shoot("b-new")


def stopping(look: Look) -> None:
    """The switch, and what everything looks like when it is thrown."""
    look.begin()
    look.passkey()
    look.open("#/")
    look.page.get_by_role("button", name="Emergency stop").filter(visible=True).click()
    look.page.get_by_role("button", name="Stop everything now").wait_for()
    look.shoot("c-estop")
    look.page.get_by_role("button", name="Stop everything now").click()
    look.page.get_by_role("alert").get_by_text("Everything is stopped").wait_for()
    look.shoot("d-stopped")
    look.page.get_by_role("alert").get_by_role("button", name="Clear …").click()
    look.page.get_by_role("dialog").get_by_role("button", name="Clear with passkey").click()
    look.page.get_by_role("alert").wait_for(state="hidden")


def offline(look: Look) -> None:
    """Opened before, the network gone: the shell comes from the cache, the data is marked."""
    look.begin()
    look.open("#/approvals")
    look.page.get_by_text("Write notes/week.md").first.wait_for()
    look.page.evaluate(
        "() => navigator.serviceWorker.ready.then(() => navigator.serviceWorker.controller"
        " || new Promise(done => navigator.serviceWorker.addEventListener('controllerchange', done))).then(() => null)"
    )
    look.context.set_offline(True)
    look.page.reload()
    look.page.get_by_text("Write notes/week.md").first.wait_for()
    look.page.get_by_text("CoilClaw cannot be reached").first.wait_for()
    look.shoot("e-offline")
    look.context.set_offline(False)


SCENES: tuple[Callable[[Look], None], ...] = (first_run, overview, approving, chatting, stopping, offline)


def main() -> int:
    """Every scene in every size and theme."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else WEB / "look" / "pictures")
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [scene for scene in SCENES if len(sys.argv) < 3 or scene.__name__ in sys.argv[2:]]
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    faults: list[str] = []
    with served() as address, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for size in SIZES:
            for theme in ("light", "dark"):
                for scene in wanted:
                    look = Look(browser, address, folder, size, theme)
                    try:
                        scene(look)
                    except Exception as error:
                        look.page.screenshot(path=str(folder / f"{size}-{theme}-broken-{scene.__name__}.png"))
                        look.faults.append(f"{size} {theme} {scene.__name__} broke: {error}")
                    faults += look.faults
                    look.context.close()
        browser.close()
    for fault in dict.fromkeys(faults):
        print(fault, file=sys.stderr)
    print(f"{len(list(folder.glob('*.png')))} pictures in {folder}, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
