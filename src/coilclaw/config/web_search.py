"""The section `[web_search]`."""

from typing import Literal

import msgspec

from coilclaw.config.notify import EnvName


class WebSearch(msgspec.Struct, frozen=True, kw_only=True):
    """The search server of `web_search`. Off by default; only the key's name is configured."""

    kind: Literal["off", "brave", "searxng"] = "off"
    """`brave` is the Brave Search API and needs a key; `searxng` is your own SearXNG server."""
    base_url: str = ""
    """For searxng: the server's URL, such as `http://localhost:8888`."""
    api_key_env: EnvName = ""
    """The name of the environment variable with the key."""

    def address(self) -> str:
        """The search URL without the query; empty when off."""
        if self.kind == "brave":
            return "https://api.search.brave.com/res/v1/web/search"
        return f"{self.base_url.rstrip('/')}/search" if self.kind == "searxng" and self.base_url else ""
