"""What only the owner can set up on GitHub: labels, protected branches, environments. By a token that is used once, or
as a list to click."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from coilclaw.features.forge.github.api import GitHubApi
from coilclaw.features.forge.github.pulls_there import GATE
from coilclaw.ledger.audit import add_event
from coilclaw.packets.box import Probe
from coilclaw.packets.canonical import Json, JsonObject, as_object
from coilclaw.packets.errors import CoilclawError, UsageError
from coilclaw.packets.forge import MergeMode

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

LABELS: Mapping[str, tuple[str, str]] = {
    "coilclaw": ("1f6feb", "A pull request of the bot"),
    "risk:R0": ("c2e0c6", "It changes nothing that matters"),
    "risk:R1": ("c2e0c6", "Low risk"),
    "risk:R2": ("fbca04", "Medium risk"),
    "risk:R3": ("d93f0b", "It changes what controls the agent: only the owner merges it"),
    "untrusted": ("d93f0b", "Its job took in what others wrote"),
    "mode:strict": ("ededed", "Opened while the owner approved every merge"),
    "mode:whitelist": ("ededed", "Opened while listed paths merged by themselves"),
    "mode:yolo": ("d93f0b", "Opened while every pull request with passing checks merged by itself"),
}
"""Colour and description of each label that pull requests bear."""
ENVIRONMENTS = ("model", "propose", "production")
"""Those of jobs in Actions."""
_PLAN = "On a free plan GitHub protects public repositories only. The bot keeps to its rules all the same."

BY_HAND = """\
On GitHub, as yourself. Or `coilclaw bot setup --token` does it, with a token of yours that is used once and not kept.
1. Settings, Branches: protect `main`. Require a pull request with {reviews}, dismiss stale approvals, require
   review from Code Owners, and require the check `{gate}`{app}. Do not tick "Do not allow bypassing":
   you push to main yourself. This fits the merge mode {mode}; set it up again when you change that.
2. Protect `ledger` too, with nothing but "Do not allow bypassing", so that nobody rewrites the signed heads.
"""


def by_hand(app: "Runtime", mode: MergeMode) -> str:
    """The same as a list to click."""
    number = app.config.forge.github.app_id
    return BY_HAND.format(
        reviews="1 approval" if _reviews(mode) else "0 approvals",
        gate=GATE,
        app=f" of your App ({number})" if number else "",
        mode=mode,
    )


async def set_up(app: "Runtime", token: str, mode: MergeMode, *, environments: bool) -> list[Probe]:
    """Set everything up with a token of the owner's own account. It is kept nowhere."""
    if app.estop.engaged():
        raise UsageError("ESTOP is engaged.", remedy="Clear it first: nothing is sent until then.")
    if weak := app.redactor.refusal(token):
        raise UsageError(f"this is not a valid token: {weak}.", remedy="Make one on GitHub: see docs/github.md.")
    app.redactor.register("github one-time token", token)
    api, settings = GitHubApi(app, token=token), app.config.forge.github
    if await api.account() != settings.owner_id:
        raise UsageError(
            f"the token is not of the account {settings.owner_id}, which is yours.",
            remedy="Make one in your own account's settings.",
        )
    await app.db.write(lambda tx: add_event(tx, app.clock, "github_set_up", settings.repository, {"mode": mode}))
    steps: list[tuple[str, Callable[[], Awaitable[str]]]] = [
        ("labels", lambda: _label(api)),
        ("main", lambda: _protect(api, "main", main_protection(mode, settings.app_id))),
        ("ledger", lambda: _protect(api, "ledger", LEDGER_PROTECTION)),
    ]
    if environments:
        steps += [(f"environment {name}", lambda name=name: _environment(api, name)) for name in ENVIRONMENTS]
    return [await _tried(name, step) for name, step in steps]


async def _tried(name: str, step: Callable[[], Awaitable[str]]) -> Probe:
    """One step; when it fails the others are tried all the same."""
    try:
        return Probe(name=name, state="ok", detail=await step())
    except CoilclawError as error:
        plan = _PLAN if "upgrade" in error.message.lower() else "The token needs Administration and Issues: write."
        return Probe(name=name, state="fail", detail=error.message, remedy=plan)


async def _label(api: GitHubApi) -> str:
    there = {str(each.get("name")).lower() for each in await api.read_all("/labels")}
    missing = [name for name in LABELS if name.lower() not in there]
    for name in missing:
        colour, about = LABELS[name]
        await api.write("POST", "/labels", {"name": name, "color": colour, "description": about})
    return f"{len(missing)} made" if missing else "all there"


# Protection


def _reviews(mode: MergeMode) -> int:
    return 1 if mode == "strict" else 0


def main_protection(mode: MergeMode, app_id: int) -> JsonObject:
    """What main asks of the bot: in every mode the owner's review of what controls the agent.

    `contexts` is left out, though the service's description requires it: with both it refuses the request.
    """
    checks: list[Json] = [{"context": GATE, "app_id": app_id or -1}]
    reviews: JsonObject = {
        "dismiss_stale_reviews": True,
        "require_code_owner_reviews": True,
        "required_approving_review_count": _reviews(mode),
    }
    required: JsonObject = {"strict": False, "checks": checks}
    return {**_WALL, "required_status_checks": required, "required_pull_request_reviews": reviews}


_WALL: JsonObject = {
    "required_status_checks": None,
    "required_pull_request_reviews": None,
    "enforce_admins": False,
    "restrictions": None,
    "allow_force_pushes": False,
    "allow_deletions": False,
}
LEDGER_PROTECTION: JsonObject = {**_WALL, "enforce_admins": True}
"""Nobody rewrites the signed heads, the owner included."""


async def _protect(api: GitHubApi, branch: str, wanted: JsonObject) -> str:
    there = await api.read(f"/branches/{branch}/protection")
    if there.status == 404 and (await api.read(f"/git/ref/heads/{branch}")).status == 404:
        return "not there yet: run this again after the first signed heads were sent"
    if there.status == 200 and _holds(there.fields, wanted):
        return "protected already"
    ours, kept = _checks(wanted), _checks(there.fields)
    names = [each["context"] for each in ours]
    checks: list[Json] = [*ours, *(each for each in kept if each["context"] not in names)]
    strict = as_object(there.fields.get("required_status_checks")).get("strict") is True
    required: Json = {"strict": strict, "checks": checks} if checks else None
    await api.write("PUT", f"/branches/{branch}/protection", {**wanted, "required_status_checks": required})
    return "protected"


def _holds(there: JsonObject, wanted: JsonObject) -> bool:
    """Whether what is there asks for exactly this; further checks of the owner's may be required besides."""
    asked, given = wanted["required_pull_request_reviews"], there.get("required_pull_request_reviews")
    admins = as_object(there.get("enforce_admins")).get("enabled")
    open_ways = [as_object(there.get(name)).get("enabled") for name in ("allow_force_pushes", "allow_deletions")]
    return (
        all(check in _checks(there) for check in _checks(wanted))
        and (asked is None) == (given is None)
        and all(as_object(given).get(name) == value for name, value in as_object(asked).items())
        and admins == wanted["enforce_admins"]
        and not any(open_ways)
    )


def _checks(protection: JsonObject) -> list[JsonObject]:
    """The required checks, each with its App, as both a request and an answer name them."""
    listed = as_object(protection.get("required_status_checks")).get("checks")
    found = [as_object(each) for each in listed] if isinstance(listed, Sequence) else []
    numbers = [each.get("app_id") for each in found]
    apps = [-1 if number is None else number for number in numbers]
    return [{"context": each["context"], "app_id": app} for each, app in zip(found, apps, strict=True)]


# Environments


async def _environment(api: GitHubApi, name: str) -> str:
    """Make an environment for main alone. One that is there may have reviewers, which making it again would drop."""
    there = await api.read(f"/environments/{name}")
    if there.status == 404:
        policy: JsonObject = {"protected_branches": False, "custom_branch_policies": True}
        await api.write("PUT", f"/environments/{name}", {"deployment_branch_policy": policy})
    elif as_object(there.fields.get("deployment_branch_policy")).get("custom_branch_policies") is not True:
        raise UsageError("it is open to every branch: restrict it to main yourself, in its settings.")
    policies = (await api.read(f"/environments/{name}/deployment-branch-policies")).fields.get("branch_policies")
    names = [as_object(each).get("name") for each in policies] if isinstance(policies, Sequence) else []
    if others := [str(each) for each in names if each != "main"]:
        raise UsageError(f"it is open to {others[0][:100]} too: restrict it to main yourself, in its settings.")
    if not names:
        await api.write("POST", f"/environments/{name}/deployment-branch-policies", {"name": "main"})
    return "for main alone; its secret is yours to set" if name != "production" else "for main alone"
