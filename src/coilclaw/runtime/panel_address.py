"""The panel's address: what people open, and so what passkeys belong to."""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from coilclaw.secrets.passkey import Place

if TYPE_CHECKING:
    from coilclaw.config import Server

_USUAL_PORT = {"http": 80, "https": 443}


def panel_origin(server: "Server", listening: int | None) -> str:
    """The origin of the panel as browsers write it; `listening` is the port that was taken, once it is known."""
    scheme = "https" if server.tls_cert is not None else "http"
    port = listening or int(server.http_addr.rpartition(":")[2])
    url = urlsplit(server.public_url or f"{scheme}://localhost:{port}")
    name = url.hostname or "localhost"
    host = f"[{name}]" if ":" in name else name
    return (
        f"{url.scheme}://{host}"
        if url.port in (None, _USUAL_PORT.get(url.scheme))
        else f"{url.scheme}://{host}:{url.port}"
    )


def passkey_place(server: "Server", listening: int | None) -> Place:
    """Passkeys are made for the panel's name, and used on its origin alone."""
    origin = panel_origin(server, listening)
    return Place(rp_id=urlsplit(origin).hostname or "localhost", origins=(origin,))
