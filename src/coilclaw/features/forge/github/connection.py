"""Whether the bot is connected to GitHub as it should be, step by step, each tried and each with its remedy."""

from typing import TYPE_CHECKING

from coilclaw.features.forge.codeowners import OWNERS
from coilclaw.features.forge.github.api import GitHubApi, TokenRights
from coilclaw.features.forge.github.main_branch import commit_of, push_line
from coilclaw.packets.box import Probe
from coilclaw.packets.canonical import JsonObject
from coilclaw.packets.errors import CoilclawError

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime


async def connection_probes(app: "Runtime") -> list[Probe]:
    """Each step of the connection; the first that fails is the last."""
    settings = app.config.forge.github
    found: list[Probe] = []
    try:
        api = GitHubApi(app)
        told = (await api.read("")).fields
        found.append(_repository(settings.repository, told))
        if found[-1].state == "fail":
            return found
        found.append(_account(await api.rights(), settings.owner_id))
        main = commit_of((await api.read("/git/ref/heads/main")).fields)
        found.append(_main(app, main))
        owners = await api.read(f"/contents/{OWNERS}") if main else None
        if owners is not None and owners.status == 404:
            remedy = "Run `coilclaw bot setup --owner @YOUR-NAME`."
            found.append(Probe(name="CODEOWNERS there", state="warn", detail="not there", remedy=remedy))
        if main:
            found.append(_protection(await api.read_all("/branches?protected=true")))
    except CoilclawError as error:
        found.append(
            Probe(name="GitHub", state="fail", detail=error.message, remedy=error.remedy or "Try again later.")
        )
    return found


def _repository(name: str, told: JsonObject) -> Probe:
    if told.get("full_name") is None:
        remedy = "Install the App on it, or give the token access to it."
        return Probe(name="repository", state="fail", detail=f"{name} is not there for the bot", remedy=remedy)
    if str(told.get("full_name")).lower() != name.lower():
        remedy = f"Set forge.github.repository to {told.get('full_name')}."
        return Probe(name="repository", state="fail", detail=f"{name} was renamed", remedy=remedy)
    if told.get("private") is not True:
        remedy = "Make it private: what is sent to a public one has left for good."
        return Probe(name="repository", state="fail", detail=f"{name} is public", remedy=remedy)
    if told.get("archived") is True:
        remedy = "Take it out of the archive: GitHub takes nothing while it is there."
        return Probe(name="repository", state="fail", detail=f"{name} is archived", remedy=remedy)
    if told.get("default_branch") != "main":
        remedy = "Make main its default branch."
        return Probe(name="repository", state="fail", detail="its default branch is not main", remedy=remedy)
    return Probe(name="repository", state="ok", detail=f"{name} is private")


async def account_probe(app: "Runtime") -> Probe:
    """Whose the bot's token is, and whether it has what none may have."""
    try:
        return _account(await GitHubApi(app).rights(), app.config.forge.github.owner_id)
    except CoilclawError as error:  # how the last look went is told anyway; being away is no fault of the token
        return Probe(name="account", state="warn", detail=error.message, remedy=error.remedy or "Try again later.")


def _account(rights: TokenRights, owner_id: int) -> Probe:
    if rights.account is not None and rights.account == owner_id:
        remedy = "Use an App or a second account: GitHub lets nobody approve their own pull request."
        return Probe(name="account", state="fail", detail="the token is your own account's", remedy=remedy)
    if rights.never:
        remedy = "Take it away in the App's settings, and accept that for its installation."
        if rights.account is not None:
            remedy = "Use a fine-grained token without it, of an account that may write the repository and no more."
        detail = f"it has the permission {' and '.join(rights.never)}, with which it could change what checks it"
        return Probe(name="account", state="fail", detail=detail, remedy=remedy)
    if rights.account is None:
        return Probe(name="account", state="ok", detail="signed in as the App")
    detail = "signed in as an account of its own"
    if rights.unknown:
        detail += "; GitHub does not tell whether its token has the permission workflows: it must not"
    return Probe(name="account", state="ok", detail=detail)


def _protection(branches: list[JsonObject]) -> Probe:
    """GitHub tells everybody which branches are protected, and only administrators how."""
    if any(each.get("name") == "main" for each in branches):
        return Probe(name="protection there", state="ok", detail="main is protected")
    remedy = "Run `coilclaw bot setup --token`, or without --token for a list to click."
    return Probe(name="protection there", state="warn", detail="not protected", remedy=remedy)


def _main(app: "Runtime", main: str) -> Probe:
    if main:
        return Probe(name="main there", state="ok", detail=main[:12])
    remedy = f"Push it once, as yourself: {push_line(app)}"
    return Probe(name="main there", state="fail", detail="the repository is empty", remedy=remedy)
