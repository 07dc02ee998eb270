"""Push in a real browser: nothing is asked on load, a pressed button turns it on, a message is shown in fixed words."""

import base64
import contextlib
import http.server
import json
import os
import sqlite3
import struct
import threading
import urllib.parse

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from coilclaw.features.notifications.web_push import encrypt
from tests.panel.acts import settle_in
from tests.panel.window import Look, Window
from tests.server.browser import chromium_path

pytestmark = pytest.mark.slow

SHOWN = """() => navigator.serviceWorker.ready.then((all) => all.getNotifications())
    .then((found) => found.map((each) => [each.title, each.body, each.data, each.tag]))"""


PRESSED = """async (tag) => {
    const [notification] = await registration.getNotifications({tag});
    dispatchEvent(new NotificationEvent('notificationclick', {notification}));
}"""
"""Press a notification, as the system does: nobody else can."""


def deliver(w, data):
    """Have the browser's own push arrive at the service worker, as a push service would."""
    found = []
    w.page.evaluate("navigator.serviceWorker.ready.then(() => 1)")
    w.tools.on("ServiceWorker.workerRegistrationUpdated", lambda event: found.extend(event["registrations"]))
    w.tools.send("ServiceWorker.disable")
    w.tools.send("ServiceWorker.enable")
    for _ in range(50):
        if found:
            break
        w.page.wait_for_timeout(100)
    origin, number = f"{w.house.origin}/", found[0]["registrationId"]
    w.tools.send("ServiceWorker.deliverPushMessage", {"origin": origin, "registrationId": number, "data": data})


def shown(w, count):
    """What the browser shows, once there are so many."""
    for _ in range(600):
        notes = w.page.evaluate(SHOWN)
        if len(notes) >= count:
            return sorted(notes)
        w.page.wait_for_timeout(100)
    return pytest.fail(f"only {notes} is shown")


def test_a_pushed_message_is_shown_in_fixed_words_and_permission_waits_for_a_button(house, window):
    w = window(Look("desktop", "light"))
    settle_in(w)
    w.open("#/settings/notices")
    assert w.page.evaluate("Notification.permission") != "granted"
    w.sees("Tell me on this device")
    # A window that forgets everything may not subscribe; one that may does so below.
    w.context.add_init_script("delete window.PushManager")
    w.context.grant_permissions(["notifications"], origin=house.origin)
    w.open("#/settings/notices")
    w.click("Tell me on this device")
    w.sees("This device tells you")
    w.accessible("settings-notices-on")
    deliver(w, json.dumps({"notification_id": "ntf_1", "type": "approval_needed", "entity_id": "act_1"}))
    deliver(w, json.dumps({"type": "job_failed", "entity_id": "job_1", "title": "Pay now", "body": "<b>quick</b>"}))
    deliver(w, "not JSON: click https://evil.example")
    assert shown(w, 3) == [
        ["CoilClaw", "A job failed", "#/work/jobs/job_1", "job_1"],
        ["CoilClaw", "Something waits for your approval", "#/approvals/act_1", "act_1"],
        ["CoilClaw", "There is something to look at", "#/settings/notices", "coilclaw"],
    ]
    deliver(w, json.dumps({"notification_id": "ntf_2", "type": "approval_expiring", "entity_id": "act_1"}))
    w.page.wait_for_timeout(500)
    assert [note[1] for note in shown(w, 3)] == [
        "A job failed",
        "An approval expires soon",
        "There is something to look at",
    ]
    (worker,) = w.context.service_workers
    worker.evaluate(PRESSED, "act_1")
    w.arrives("/approvals/act_1")
    assert {note[3] for note in shown(w, 2)} == {"coilclaw", "job_1"}, "what was pressed is gone"
    w.open("#/settings/notices")
    w.click("Stop telling me here")
    w.sees("Tell me on this device")


class PushService(http.server.BaseHTTPRequestHandler):
    """As much of a browser maker's push service as subscribing needs: a device is known, and gets a token."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/checkin":  # protobuf: it is well, and the device's number and secret (fields 1, 7 and 8)
            answer = b"\x08\x01\x39" + struct.pack("<Q", 12345) + b"\x41" + struct.pack("<Q", 67890)
        else:
            self.server.asked.append(dict(urllib.parse.parse_qsl(body.decode())))
            answer = b"token=tok_0123456789"
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format, *args):  # noqa: A002 - the name the base class gave it
        pass


@pytest.fixture
def push_service():
    """A push service on loopback."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), PushService)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


class Lasting:
    """The browser with a profile on disk and that push service: a window that forgets everything may not subscribe."""

    def __init__(self, browser, folder, service):
        self._launch = browser.browser_type.launch_persistent_context
        self._folder = folder
        places = {"checkin-url": "checkin", "registration-url": "register", "mcs-endpoint": "mcs"}
        at = f"http://127.0.0.1:{service.server_port}"
        self._args = [f"--gcm-{name}={at}/{path}" for name, path in places.items()]

    def new_context(self, **options):
        return self._launch(
            str(self._folder),
            executable_path=chromium_path(),
            ignore_default_args=["--disable-background-networking", "--headless"],
            args=["--no-sandbox", "--no-first-run", "--headless=new", *self._args],
            env={"HOME": str(self._folder), "PATH": os.environ.get("PATH", "/usr/bin:/bin")},
            **options,
        )


FORGOTTEN = """
if (location.protocol === 'http:') {
    const kept = (key) => ({
        endpoint: 'https://push.example.net/forgotten',
        options: {applicationServerKey: Uint8Array.from(JSON.parse(key)).buffer},
        unsubscribe: () => Promise.resolve(localStorage.removeItem('kept') ?? true),
    });
    PushManager.prototype.getSubscription = () =>
        Promise.resolve(localStorage.kept ? kept(localStorage.kept) : null);
    PushManager.prototype.subscribe = (options) => {
        localStorage.tried = JSON.stringify([...options.applicationServerKey]);
        return Promise.reject(new Error('there is no push service here'));
    };
}
"""
"""A browser whose subscription may live on, in a place without a push service."""


def test_push_is_called_on_only_when_the_server_knows_of_it_and_ends_with_the_sign_in(house, window):
    w = window(Look("phone", "light"))
    w.context.add_init_script(FORGOTTEN)
    settle_in(w)
    w.context.grant_permissions(["notifications"], origin=house.origin)
    w.open("#/settings/notices")
    w.click("Tell me on this device")
    w.sees("This device tells you while the panel is open")
    w.page.wait_for_function("() => localStorage.tried")
    w.page.evaluate("localStorage.kept = localStorage.tried")
    w.open("#/settings/notices")
    w.sees("This device tells you while the panel is open")
    w.page.wait_for_function("() => !localStorage.kept")  # nobody sends to it, so it is given up
    with contextlib.closing(sqlite3.connect(house.home / "memory.sqlite", timeout=30)) as db, db:
        db.execute(
            "INSERT INTO push_subscriptions (subscription_id, device_id, endpoint, p256dh, auth, created_at) SELECT"
            " 'psh_1', device_id, 'https://push.example.net/forgotten', x'04', x'00', created_at FROM devices LIMIT 1"
        )
    w.page.evaluate("localStorage.kept = localStorage.tried")
    w.open("#/settings/notices")
    w.sees("also while the panel is closed")
    w.go("#/settings/appearance")
    w.click("Sign out")
    w.page.get_by_label("Pairing code").wait_for()
    assert w.page.evaluate("[localStorage.kept ?? null, localStorage['coilclaw.alerts'] ?? null]") == [None, None]


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_chromium_subscribes_with_the_servers_key_and_tells_it_where(browser, house, push_service, tmp_path):
    """Its own `pushManager.subscribe`. Whether the server takes the address depends on names it can look up here."""
    w = Window(Lasting(browser, tmp_path / "profile", push_service), house, Look("phone", "dark"))
    settle_in(w)
    w.context.grant_permissions(["notifications"], origin=house.origin)
    w.open("#/settings/notices")
    with (
        w.page.expect_response(lambda answer: answer.url.rstrip("/").endswith("/v1/push")) as state,
        w.page.expect_request(lambda request: "/v1/push/subscriptions" in request.url) as posted,
    ):
        w.click("Tell me on this device")
    public, sent = state.value.json()["public_key"], posted.value.post_data_json
    w.page.get_by_text("Stop telling me here").wait_for()
    w.close()
    asked = next(each for each in push_service.asked if each.get("X-subtype", "").startswith(f"wp:{house.origin}/"))
    assert decoded(asked["sender"]) == decoded(public), "nobody but the server may send to it"
    assert sent["endpoint"].startswith("https://")
    assert sent["endpoint"].endswith("/tok_0123456789")
    # What the browser made is what the server encrypts for.
    point, auth = decoded(sent["keys"]["p256dh"]), decoded(sent["keys"]["auth"])
    assert encrypt(b"{}", p256dh=point, auth=auth, sender=ec.generate_private_key(ec.SECP256R1()), salt=bytes(16))
