"""Settings over HTTP: a change of config.toml is proposed here and approved like everything that governs the agent."""

import asyncio
from typing import Annotated

import msgspec
from litestar import Controller, Response, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from coilclaw.features.owner_files.views import PUT_ANSWERS, Edited, answer_edited
from coilclaw.features.policy.settings import ProposedSettings
from coilclaw.packets.errors import UsageError
from coilclaw.packets.settings import SettingChange
from coilclaw.runtime.settings import NothingChanges
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.problems import Trouble, problems


class ProposeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes that belong together: all of them are made, or none."""

    changes: Annotated[list[SettingChange], msgspec.Meta(min_length=1, max_length=50)]


class SettingsController(Controller):
    """Changing settings."""

    path = "/v1/settings"
    tags = ("policy",)

    @post(operation_id="proposeSettings", status_code=202, responses={**PUT_ANSWERS, **problems(422)})
    async def propose(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        settings: NamedDependency[ProposedSettings],
        data: JSONBody[ProposeSettings],
        request_key: NamedDependency[str | None],
    ) -> Response[Edited]:
        """Propose to change keys of config.toml. It waits for the owner's passkey; what would not hold is refused."""
        try:
            edited = await asyncio.shield(settings.propose(tuple(data.changes), by=caller.by, key=request_key))
        except NothingChanges as error:
            raise Trouble(409, "NOTHING_CHANGES", error.message, remedy=error.remedy) from error
        except UsageError as error:
            raise Trouble(422, "SETTINGS_INVALID", core.said(error.message), remedy=error.remedy) from error
        return answer_edited(core, edited)
