"""One browser window on the panel: its size and theme, its authenticator, and what went wrong in it."""

import contextlib
import os
import re
from dataclasses import dataclass

from tests.panel.house import axe_source, screenshots
from tests.server.browser import chromium_path

PATIENCE = 120_000
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SIZES = {
    "phone": (375, 812),
    "desktop": (1440, 900),
    "narrow": (320, 640),  # 1280 at 400 %
    "zoomed": (720, 450),  # 1440 by 900 at 200 %
}

# Refused and unreachable requests belong to the story (before pairing, offline). Permissions that are taken away are
# named for every browser; each remarks on those it has never heard of.
EXPECTED = re.compile(r"Failed to load resource")

# Runs before any script of the page; it is put there by the browser's own tools, which the policy does not concern.
WATCH = """
addEventListener('securitypolicyviolation', (event) =>
    console.error('CSP refused', event.effectiveDirective, event.blockedURI, event.sourceFile, event.lineNumber));
window.__shifts = [];
new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
        if (!entry.hadRecentInput) window.__shifts.push([entry.value, ...entry.sources.map((source) => {
            const node = source.node;
            return node?.nodeType === 1 ? `${node.tagName}.${node.className}` : String(node?.parentElement?.className);
        })]);
    }
}).observe({type: 'layout-shift', buffered: true});
"""

SETTLED = """() => new Promise((done) => {
    let calm = 0;
    const look = () => {
        const busy = [...document.querySelectorAll('.loading, [aria-busy=true]')]
            .some((each) => each.checkVisibility());
        calm = busy ? 0 : calm + 1;
        if (calm > 5) done(true); else requestAnimationFrame(look);
    };
    look();
})"""

AXE = """(async () => {
    const found = await axe.run(document, OPTIONS);
    const why = (node) => [...node.any, ...node.all, ...node.none][0]?.message ?? '';
    const told = (node) => node.target.join(' ') + ' ' + why(node);
    return found.violations.map((rule) =>
        rule.id + ': ' + rule.help + ' — ' + rule.nodes.slice(0, 4).map(told).join(' | '));
})()"""


GONE = """() => {
    const closing = [...document.querySelectorAll('.toasts button')];
    closing.forEach((each) => each.click());
    return closing.length === 0;
}"""
"""Closes every toast, and tells when none is left."""


LONGER = """() => {
    const root = document.documentElement;
    const over = root.scrollHeight - root.clientHeight;
    return over > 0 && document.querySelector('.shell') ? [`${over}px`, ...[...document.querySelectorAll('body *')]
        .filter(each => getComputedStyle(each).position === 'absolute')
        .filter(each => each.getBoundingClientRect().bottom + root.scrollTop > root.clientHeight)
        .slice(-3).map(each => each.parentElement.className + ' ' + each.textContent.slice(0, 40))] : [];
}"""
"""What makes the whole page scroll, and the bars with it; before the device is paired there are none."""


@dataclass(frozen=True)
class Look:
    """How big, and by which light."""

    size: str
    theme: str

    def __str__(self):
        return f"{self.size}-{self.theme}"


@contextlib.contextmanager
def browsing():
    """Chromium without a window."""
    path = chromium_path()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-background-networking", "--no-first-run"],
            env={"HOME": os.environ.get("TMPDIR", "/tmp"), "PATH": os.environ.get("PATH", "/usr/bin:/bin")},
        )
        try:
            yield browser
        finally:
            browser.close()


class Window:
    """A window with nothing in it yet. `faults` must be empty when a test ends; `close` sees to that."""

    def __init__(self, browser, house, look, *, still=False, **options):
        self.house = house
        self.look = look
        self.faults = []
        self.asked = []
        width, height = SIZES[look.size]
        phone = look.size == "phone"
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=look.theme,
            has_touch=phone,
            is_mobile=phone,
            device_scale_factor=2 if phone else 1,
            reduced_motion="reduce" if still else "no-preference",
            service_workers="allow",
            timezone_id="Europe/Berlin",
            locale="en-GB",
            **options,
        )
        self.context.set_default_timeout(PATIENCE)
        self.context.add_init_script(WATCH)
        self.context.on("request", lambda request: self.asked.append(request.url))
        self.page = self.context.new_page()
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.faults.append(f"{self.look} threw {error}"))
        self.tools = self.context.new_cdp_session(self.page)
        self.authenticator = Authenticator(self.tools)

    def _heard(self, message):
        if message.type in ("error", "warning") and not EXPECTED.search(message.text):
            self.faults.append(f"{self.look} console: {message.text}")

    def open(self, fragment="#/"):
        """Load the panel at a place, from nothing."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.house.origin}/{fragment}")
        self.page.locator("#app > *").first.wait_for(state="attached")

    def go(self, fragment):
        """Go to a place without loading anew."""
        self.page.evaluate("hash => { location.hash = hash }", fragment)

    def settled(self):
        """Wait until everything that was asked for is shown, and has been for a moment."""
        self.page.wait_for_function(SETTLED)

    def click(self, name, role="button", **options):
        """Press what is called so, wherever it is in sight."""
        found = self.page.get_by_role(role, name=name, **options).filter(visible=True).first
        found.click()
        return found

    def sees(self, text, **options):
        """Wait until this can be read."""
        found = self.page.get_by_text(text, **options).filter(visible=True).first
        found.wait_for()
        return found

    @property
    def place(self):
        return self.page.url.partition("#")[2]

    def arrives(self, pattern):
        """Wait until the address is one like this; what it left open."""
        wanted = re.compile(rf"#{pattern}(?:\?.*)?$")
        self.page.wait_for_url(wanted)
        return wanted.search(self.page.url)

    # What is held against every scene

    def shoot(self, scene):
        """Keep a picture."""
        self.page.screenshot(path=screenshots() / f"{self.look}-{scene}.png")

    def scene(self, name):
        """Keep a picture of what is in sight, and hold it against the rules."""
        self.settled()
        self.page.wait_for_function(GONE, timeout=PATIENCE)  # one that fades has other colours
        self.shoot(name)
        self.accessible(name)
        self.fits(name)

    def accessible(self, name, *, colours_only=False):
        """No rule of accessibility is broken; the rules run in a world of their own, beside the page's scripts."""
        only = {"type": "rule", "values": ["color-contrast"]} if colours_only else {"type": "tag", "values": TAGS}
        world = self._rules_world()
        asked = AXE.replace("OPTIONS", f"{{runOnly: {{type: {only['type']!r}, values: {only['values']!r}}}}}")
        found = self._evaluate(asked, world)
        if any(".toast" in each for each in found):  # it came while the rules were read, and was not there in full
            self.page.wait_for_function(GONE, timeout=PATIENCE)
            found = self._evaluate(asked, world)
        self.faults += [f"{self.look} {name}: axe {each}" for each in found]

    def _rules_world(self):
        tree = self.tools.send("Page.getFrameTree")
        made = self.tools.send(
            "Page.createIsolatedWorld", {"frameId": tree["frameTree"]["frame"]["id"], "worldName": "rules"}
        )
        world = made["executionContextId"]
        if not self._evaluate("typeof axe === 'object'", world):
            self._evaluate(axe_source() + "; null", world)
        return world

    def _evaluate(self, script, world):
        answer = self.tools.send(
            "Runtime.evaluate",
            {"expression": script, "contextId": world, "awaitPromise": True, "returnByValue": True},
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def fits(self, name):
        """Nothing has to be moved sideways to be read, and the bars stay where they are."""
        wide = self.page.evaluate("""() => {
            const room = document.documentElement.clientWidth;
            const page = document.documentElement.scrollWidth - room;
            return page > 0 ? [`page ${page}px`, ...[...document.querySelectorAll('body *')]
                .filter(each => each.getBoundingClientRect().right > room + 1).slice(-3)
                .map(each => each.tagName + '.' + each.className)] : [];
        }""")
        if wide:
            self.faults.append(f"{self.look} {name}: wider than the window: {wide}")
        if longer := self.page.evaluate(LONGER):
            self.faults.append(f"{self.look} {name}: longer than the window: {longer}")

    def shifts(self):
        """How far things jumped since the page was loaded, and which."""
        moved = self.page.evaluate("window.__shifts")
        return sum(each[0] for each in moved), moved

    def close(self):
        """Close it; whatever it did, it spoke to its own server alone and broke no rule."""
        self.context.close()
        foreign = {
            url for url in self.asked if not url.startswith((f"{self.house.origin}/", "about:", "blob:", "data:"))
        }
        assert foreign == set(), foreign
        faults = list(dict.fromkeys(self.faults))
        assert faults == [], "\n".join(faults)


AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


class Authenticator:
    """The window's own authenticator: it verifies its user and answers by itself."""

    def __init__(self, tools):
        self._tools = tools
        tools.send("WebAuthn.enable")
        self._id = tools.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})["authenticatorId"]

    def credentials(self):
        """What it holds."""
        return self._tools.send("WebAuthn.getCredentials", {"authenticatorId": self._id})["credentials"]

    def take(self, credentials):
        """Hold these too, as a synchronised keychain does."""
        for each in credentials:
            self._tools.send("WebAuthn.addCredential", {"authenticatorId": self._id, "credential": each})

    def verifies(self, yes):
        """Whether it recognises its user from now on."""
        self._tools.send("WebAuthn.setUserVerified", {"authenticatorId": self._id, "isUserVerified": yes})
