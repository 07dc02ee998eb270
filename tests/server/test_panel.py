"""The panel's files: exactly those of the build, with the right headers; and the built panel in a real browser."""

import gzip
import hashlib
import json
from contextlib import asynccontextmanager

import httpx
import msgspec
import pytest

from coilclaw.server.door.headers import guarded, headers_of
from coilclaw.server.panel import FOLDER, Panel
from tests.missing import lacks
from tests.server.browser import chromium

SCRIPT = b"console.log('hello');\n" * 40
PAGE = b"<!doctype html><title>x</title>"
PICTURE = bytes(range(256))
FILES = {
    "/": ("index.html", PAGE, "text/html; charset=utf-8", False),
    "/sw.js": ("sw.js", b"// worker\n", "text/javascript; charset=utf-8", False),
    "/icon.png": ("icon.png", PICTURE, "image/png", False),
    "/assets/app-1a2b.js": ("assets/app-1a2b.js", SCRIPT, "text/javascript; charset=utf-8", True),
}


@pytest.fixture
def build(tmp_path):
    """A small build with its list."""
    listed = []
    for path, (file, body, kind, immutable) in FILES.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_bytes(body)
        listed.append(
            {
                "path": path,
                "file": file,
                "type": kind,
                "immutable": immutable,
                "sha256": hashlib.sha256(body).hexdigest(),
            }
        )
    (tmp_path / "files.json").write_text(json.dumps({"version": "v1", "files": listed}))
    (tmp_path / "secret.txt").write_text("not listed")
    return tmp_path


async def nothing_else(scope, receive, send):
    """Stands for the routes behind the panel."""
    await send({"type": "http.response.start", "status": 404, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"routes"})


def client(panel):
    return httpx.AsyncClient(transport=httpx.ASGITransport(panel.before(nothing_else)), base_url="http://localhost")


async def test_every_listed_file_is_served_with_its_type(build):
    async with client(Panel.load(build)) as http:
        for path, (_, body, kind, _) in FILES.items():
            answer = await http.get(path)
            assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, body, kind)


async def test_hashed_names_are_kept_for_ever_and_the_rest_is_asked_for_again(build):
    async with client(Panel.load(build)) as http:
        assert (await http.get("/assets/app-1a2b.js")).headers["cache-control"] == "public, max-age=31536000, immutable"
        for path in ("/", "/sw.js", "/icon.png"):
            assert (await http.get(path)).headers["cache-control"] == "no-cache"


async def test_a_known_etag_gets_no_body(build):
    async with client(Panel.load(build)) as http:
        etag = (await http.get("/")).headers["etag"]
        for known in (etag, f"W/{etag}", f'"other", {etag}'):
            answer = await http.get("/", headers={"If-None-Match": known})
            assert (answer.status_code, answer.content) == (304, b"")
        assert (await http.get("/", headers={"If-None-Match": '"other"'})).status_code == 200


async def test_head_says_what_get_would_send(build):
    async with client(Panel.load(build)) as http:
        answer = await http.head("/icon.png")
        assert (answer.status_code, answer.content, answer.headers["content-length"]) == (200, b"", str(len(PICTURE)))


async def test_text_is_gzipped_for_who_takes_it_and_pictures_never(build):
    async with client(Panel.load(build)) as http:
        squeezed = await http.get("/assets/app-1a2b.js", headers={"Accept-Encoding": "br, gzip"})
        assert squeezed.headers["content-encoding"] == "gzip"
        assert squeezed.content == SCRIPT
        assert int(squeezed.headers["content-length"]) == len(gzip.compress(SCRIPT, mtime=0)) < len(SCRIPT)
        assert squeezed.headers["vary"] == "accept-encoding"
        for refused in ("", "br", "gzip;q=0", "gzip; q=0.0"):
            plain = await http.get("/assets/app-1a2b.js", headers={"Accept-Encoding": refused})
            assert "content-encoding" not in plain.headers
        assert "content-encoding" not in (await http.get("/icon.png")).headers


@pytest.mark.parametrize(
    "path",
    [
        "/index.html", "/assets", "/assets/", "/secret.txt", "/files.json", "/assets/../secret.txt", "//", "/./",
        "/%2e%2e/secret.txt", "/assets/app-1a2b.js/", "/ASSETS/app-1a2b.js", "/assets/app-1a2b.js\x00", "/v1/sign-in",
        "",
    ],
)  # fmt: skip
def test_nothing_but_the_list_is_an_asset(build, path):
    assert not Panel.load(build).is_asset(path)


async def test_what_is_not_an_asset_and_no_get_continues_to_the_routes(build):
    async with client(Panel.load(build)) as http:
        assert (await http.get("/assets/app-0000.js")).text == "routes"
        assert (await http.post("/")).text == "routes"


async def test_a_missing_build_says_what_to_do(tmp_path):
    panel = Panel.load(tmp_path / "nowhere")
    assert panel.is_asset("/")
    async with client(panel) as http:
        assert "scripts/panel" in (await http.get("/")).text


@pytest.mark.parametrize("damage", ["changed", "gone", "list", "no index"])
def test_a_build_that_does_not_match_its_list_is_not_served(build, damage):
    if damage == "changed":
        (build / "sw.js").write_text("// other\n")
    elif damage == "gone":
        (build / "icon.png").unlink()
    elif damage == "list":
        (build / "files.json").write_text('{"files": [{"path": 1}]}')
    else:
        listing = json.loads((build / "files.json").read_text())
        listing["files"] = [each for each in listing["files"] if each["path"] != "/"]
        (build / "files.json").write_text(json.dumps(listing))
    panel = Panel.load(build)
    assert panel.version == ""
    assert not panel.is_asset("/assets/app-1a2b.js")


# The panel as it is built


def built():
    """The panel of this tree; scripts/test builds it before the tests."""
    panel = Panel.load()
    if not panel.version:
        lacks("the built panel", "Run scripts/panel.")
    return panel


def test_the_built_page_has_no_inline_script_or_style_and_names_only_listed_files():
    panel = built()
    page = (FOLDER / "index.html").read_text()
    assert "<style" not in page
    assert " style=" not in page
    assert "onload=" not in page
    for piece in page.split("<script")[1:]:
        head, _, rest = piece.partition(">")
        assert 'src="' in head
        assert rest.startswith("</script>")
    for attribute in ("src", "href"):
        for piece in page.split(f'{attribute}="')[1:]:
            assert panel.is_asset(piece.partition('"')[0])


def test_nothing_in_the_build_asks_another_origin_for_anything():
    built()
    listing = msgspec.json.decode((FOLDER / "files.json").read_bytes())
    for each in listing["files"]:
        if each["type"].startswith("text/css"):
            text = (FOLDER / each["file"]).read_text()
            assert "http:" not in text
            assert "https:" not in text
            assert "@import" not in text


@asynccontextmanager
async def listening(app):
    """A real server on loopback, with the headers the door puts on panel answers."""
    import asyncio

    from coilclaw.server.listener import listen

    async def door(scope, receive, send):
        async def with_headers(message):
            if message["type"] == "http.response.start":
                message = {**message, "headers": guarded(headers_of(message), panel=True, secure=False)}
            await send(message)

        await app(scope, receive, with_headers)

    stop, port = asyncio.Event(), asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(listen(door, "127.0.0.1", 0, stop, port.set_result))
    try:
        yield f"http://localhost:{await port}"
    finally:
        stop.set()
        await serving


async def unpaired(scope, receive, send):
    body = msgspec.json.encode(
        {"type": "x", "title": "x", "status": 401, "detail": "no device", "code": "UNPAIRED", "remedy": ""}
    )
    await send(
        {"type": "http.response.start", "status": 401, "headers": [(b"content-type", b"application/problem+json")]}
    )
    await send({"type": "http.response.body", "body": body})


@pytest.mark.slow
async def test_the_built_panel_runs_under_the_doors_policy_and_opens_again_without_a_server():
    panel = built()
    async with listening(panel.before(unpaired)) as origin, chromium() as browser:
        page = await (await browser.new_context()).new_page()
        faults = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda said: faults.append(said.text) if "Content Security Policy" in said.text else None)
        await page.goto(f"{origin}/#pair=abcd-efgh")
        await page.get_by_role("heading", name="Pair this device").wait_for()
        assert await page.get_by_label("Pairing code").input_value() == "ABCD-EFGH"
        assert "pair=" not in page.url
        await page.evaluate("() => navigator.serviceWorker.ready.then(() => null)")
        await page.context.set_offline(True)
        await page.reload()
        await page.get_by_text("You are offline").wait_for()
        assert faults == []
