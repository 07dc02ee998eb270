"""The panel's files: those listed by the build, held in memory. No request path reaches the disk."""

import gzip
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from litestar.types import ASGIApp, Receive, Scope, Send

FOLDER = Path(__file__).resolve().parent.parent / "panel"
LISTING = "files.json"
LARGEST = 8 << 20
"""Maximum size of all files together."""

_FOR_EVER = b"public, max-age=31536000, immutable"
_ASK_AGAIN = b"no-cache"
_SQUEEZED = ("text/", "image/svg+xml", "application/manifest+json")
_MISSING = b"The panel is not built here. Run scripts/panel (or scripts/up) in the source tree, then start again.\n"


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A file in the build's list."""

    path: str
    file: str
    type: str
    immutable: bool
    sha256: str


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """The build's list."""

    version: str
    files: tuple[Listed, ...]


class Asset(msgspec.Struct, frozen=True, kw_only=True):
    """A file to serve."""

    body: bytes
    squeezed: bytes | None
    """The same, gzipped; None if that saves nothing."""
    type: bytes
    cache: bytes
    etag: bytes


class Panel:
    """The files of one build by their paths."""

    def __init__(self, assets: Mapping[str, Asset], version: str) -> None:
        self._assets = dict(assets)
        self.version = version

    @classmethod
    def load(cls, folder: Path = FOLDER) -> "Panel":
        """Load the listed files; if the build is missing or does not match, responses say what to do."""
        try:
            listing = msgspec.json.decode((folder / LISTING).read_bytes(), type=Listing)
            assets = {each.path: _asset(folder, each) for each in listing.files}
        except (OSError, ValueError, msgspec.DecodeError):
            return cls({"/": _note()}, "")
        if sum(len(asset.body) for asset in assets.values()) > LARGEST or "/" not in assets:
            return cls({"/": _note()}, "")
        return cls(assets, listing.version)

    def is_asset(self, path: str) -> bool:
        """Whether exactly this path is a file of the panel."""
        return path in self._assets

    def before(self, app: ASGIApp) -> ASGIApp:
        """Serve the panel's files; pass everything else to `app`."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
                asset = self._assets.get(scope["path"])
                if asset is not None:
                    await _hand_out(asset, scope, send)
                    return
            await app(scope, receive, send)

        return answer


def _asset(folder: Path, listed: Listed) -> Asset:
    body = (folder / listed.file).read_bytes()
    if hashlib.sha256(body).hexdigest() != listed.sha256:
        raise ValueError(listed.file)
    squeezed = gzip.compress(body, mtime=0) if listed.type.startswith(_SQUEEZED) else None
    return Asset(
        body=body,
        squeezed=squeezed if squeezed is not None and len(squeezed) < len(body) else None,
        type=listed.type.encode("ascii"),
        cache=_FOR_EVER if listed.immutable else _ASK_AGAIN,
        etag=b'"%s"' % listed.sha256[:32].encode("ascii"),
    )


def _note() -> Asset:
    return Asset(body=_MISSING, squeezed=None, type=b"text/plain; charset=utf-8", cache=b"no-store", etag=b'"missing"')


async def _hand_out(asset: Asset, scope: Any, send: Send) -> None:
    asked = {name.lower(): value for name, value in scope["headers"]}
    squeezed = asset.squeezed if _takes_gzip(asked.get(b"accept-encoding", b"")) else None
    body = asset.body if squeezed is None else squeezed
    headers = [(b"content-type", asset.type), (b"cache-control", asset.cache), (b"etag", asset.etag)]
    if asset.squeezed is not None:
        headers.append((b"vary", b"accept-encoding"))
    if squeezed is not None:
        headers.append((b"content-encoding", b"gzip"))
    same = asset.etag in (tag.strip().removeprefix(b"W/") for tag in asked.get(b"if-none-match", b"").split(b","))
    if not same:
        headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": 304 if same else 200, "headers": headers})
    sent = b"" if same or scope["method"] == "HEAD" else body
    await send({"type": "http.response.body", "body": sent, "more_body": False})


def _takes_gzip(accepted: bytes) -> bool:
    for part in accepted.lower().split(b","):
        name, _, rest = part.partition(b";")
        if name.strip() in (b"gzip", b"*"):
            return rest.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False
