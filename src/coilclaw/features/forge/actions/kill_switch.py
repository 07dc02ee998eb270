"""The variable COILCLAW_STOP on GitHub and ESTOP here: either one stops both. The owner clears each by hand."""

from typing import TYPE_CHECKING

from coilclaw.features.forge.github.api import GitHubApi, GitHubRefused
from coilclaw.gate.estop import note_estop
from coilclaw.packets.errors import CoilclawError
from coilclaw.packets.ids import stamp

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

STOP = "COILCLAW_STOP"
_PLACE = f"/actions/variables/{STOP}"
REASON = f"the variable {STOP} is set on GitHub"


async def stop_elsewhere(app: "Runtime") -> str | None:
    """Tell a stop to Actions, if work of this home runs there; why that failed, or empty. None when none does."""
    forge = app.config.forge
    return await set_stop_there(app) if forge.kind == "github" and forge.github.execute == "actions" else None


async def set_stop_there(app: "Runtime") -> str:
    """Set the variable that every workflow reads first; why that failed, or empty. ESTOP is no reason not to."""
    api = GitHubApi(app)
    try:
        try:
            await api.write("PATCH", _PLACE, {"name": STOP, "value": "estop"}, despite_estop=True)
        except GitHubRefused as error:
            if error.status != 404:
                raise
            await api.write("POST", "/actions/variables", {"name": STOP, "value": "estop"}, despite_estop=True)
    except CoilclawError as error:
        return app.redact(str(error))
    return ""


async def agree_on_stop(app: "Runtime", api: GitHubApi) -> bool:
    """Engage ESTOP here when the variable is set there, and set the variable when ESTOP is engaged here; whether
    ESTOP was engaged by it. An App that may not read variables heeds none."""
    try:
        answer = await api.read(_PLACE)
    except GitHubRefused as error:
        if error.status != 403:
            raise
        return False
    is_set = answer.status == 200 and bool(str(answer.fields.get("value") or "").strip())
    if app.estop.engaged():
        if not is_set and (fault := await set_stop_there(app)):
            app.warn(f"GitHub Actions were not told of ESTOP: {fault}")
        return False
    if not is_set:
        return False
    app.estop.engage(REASON, stamp(app.clock()))
    await app.db.write(lambda tx: note_estop(tx, app.clock, engaged=True, by="github", reason=REASON))
    return True
