"""The built-in set."""

from coilclaw.packets.ports import Tool
from coilclaw.tools.ask import ask_user
from coilclaw.tools.declare import registry
from coilclaw.tools.files import file_list, file_read, file_write
from coilclaw.tools.http import http
from coilclaw.tools.memory import memory_search
from coilclaw.tools.shell import shell
from coilclaw.tools.time import time
from coilclaw.tools.undo import undo
from coilclaw.tools.web import make_web_search, web_open


def builtin_tools(*, search_url: str = "") -> dict[str, Tool]:
    """Every tool that ships with the product, by name."""
    return registry(
        [
            time,
            file_list,
            file_read,
            file_write,
            shell,
            http,
            web_open,
            make_web_search(search_url),
            memory_search,
            ask_user,
            undo,
        ]
    )
