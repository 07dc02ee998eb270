"""The built-in set."""

from collections.abc import Iterable, Mapping

from coilclaw.packets.http import SendTarget
from coilclaw.packets.ports import Tool
from coilclaw.tools.approval import sop_approval
from coilclaw.tools.artifacts import artifact_get, artifact_put
from coilclaw.tools.ask import ask_user
from coilclaw.tools.attachments import attachment_save
from coilclaw.tools.command import command_status, command_stop
from coilclaw.tools.configure import ConfigWriter, make_settings_change
from coilclaw.tools.declare import registry
from coilclaw.tools.edit import file_edit
from coilclaw.tools.files import file_list, file_write
from coilclaw.tools.followup import schedule_followup
from coilclaw.tools.memory import memory_search
from coilclaw.tools.notes import notes_read, notes_write
from coilclaw.tools.plan import plan_update
from coilclaw.tools.reach_out import Post, make_reach_out
from coilclaw.tools.read import file_read
from coilclaw.tools.release import quarantine_release
from coilclaw.tools.relocate import file_delete, file_move
from coilclaw.tools.search import file_search
from coilclaw.tools.shell import shell
from coilclaw.tools.show import file_show
from coilclaw.tools.time import time
from coilclaw.tools.undo import undo
from coilclaw.tools.web import http, make_web_search, web_open
from coilclaw.tools.webhook import WebhookSend


def builtin_tools(
    *,
    search_url: str = "",
    webhooks: Mapping[str, SendTarget] | None = None,
    reach_out: Post | None = None,
    config_writer: ConfigWriter | None = None,
    more: Iterable[Tool] = (),
) -> dict[str, Tool]:
    """Every tool that ships with the product, by name; `more` are the features' tools."""
    return registry(
        [
            time,
            file_list,
            file_read,
            file_write,
            file_edit,
            file_search,
            file_move,
            file_delete,
            shell,
            command_status,
            command_stop,
            http,
            web_open,
            make_web_search(search_url),
            memory_search,
            plan_update,
            notes_write,
            notes_read,
            schedule_followup,
            make_reach_out(reach_out),
            artifact_put,
            artifact_get,
            WebhookSend(webhooks or {}),
            ask_user,
            undo,
            sop_approval,
            attachment_save,
            file_show,
            quarantine_release,
            make_settings_change(config_writer),
            *more,
        ]
    )
