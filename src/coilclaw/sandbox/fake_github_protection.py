"""The protection of branches on the fake GitHub: what it asks of a merge and of a push. Not for production."""

from collections.abc import Mapping, Sequence

import msgspec

from coilclaw.packets.canonical import Json, JsonObject, as_object
from coilclaw.sandbox.fake_github_repository import HostedRepository, Refused

_URL = "https://api.github.com/x"


class Protection(msgspec.Struct, frozen=True, kw_only=True):
    """What a branch asks for."""

    pulls: bool = True
    """It moves by pull requests only."""
    reviews: int = 1
    owners: bool = False
    """The reviews of code owners are required, and of them alone where `reviews` is 0."""
    checks: tuple[tuple[str, int], ...] = ()
    """Names of checks, each with the App that must have said so; -1 for any."""
    admins: bool = False
    """It holds for administrators too."""

    def must_be_met(
        self, hosted: HostedRepository, base: str, head: str, approvals: int, passed: set[tuple[str, int]]
    ) -> None:
        """Refuse a merge for which something is missing. Reviews of an older head were dismissed."""
        if approvals < self.reviews:
            raise Refused(405, "At least 1 approving review is required by reviewers with write access.")
        if self.owners and not approvals and _owned(hosted, base, head):
            raise Refused(405, "Waiting on code owner review from owner.")
        for name, app in self.checks:
            if not any(name == said and app in (-1, by) for said, by in passed):
                raise Refused(405, f'Required status check "{name}" is expected.')

    def must_take_push(self, *, is_admin: bool, forced: bool) -> None:
        """Refuse a push past it."""
        if is_admin and not self.admins:
            return
        if self.pulls:
            raise Refused(422, "Changes must be made through a pull request.")
        if forced:
            raise Refused(422, "Cannot force-push to this branch")


def _owned(hosted: HostedRepository, base: str, head: str) -> bool:
    """Whether a change touches what CODEOWNERS on the base names somebody for."""
    if not hosted.git("ls-tree", base, ".github/CODEOWNERS"):
        return False
    rules = [
        line.split() for line in hosted.git("cat-file", "blob", f"{base}:.github/CODEOWNERS").decode().splitlines()
    ]
    named = [rule[0].strip("/") for rule in rules if len(rule) > 1 and not rule[0].startswith("#")]
    changed = hosted.git("diff", "--name-only", f"{base}...{head}").decode().splitlines()
    return any(path == name or path.startswith(f"{name}/") for path in changed for name in named)


def read_protection(body: JsonObject) -> Protection:
    """What was asked for; the four fields that the service requires must be there."""
    required = ("required_status_checks", "enforce_admins", "required_pull_request_reviews", "restrictions")
    if any(name not in body for name in required):
        raise Refused(422, "Invalid request. Missing keys.")
    if {"checks", "contexts"} <= set(as_object(body["required_status_checks"])):
        raise Refused(422, 'Invalid request. No subschema in "oneOf" matched.')
    reviews, checks = body["required_pull_request_reviews"], as_object(body["required_status_checks"]).get("checks")
    listed = [as_object(each) for each in checks] if isinstance(checks, Sequence) else []
    asked = as_object(reviews)
    count, owners = asked.get("required_approving_review_count", 1), asked.get("require_code_owner_reviews") is True
    return Protection(
        pulls=isinstance(reviews, Mapping), reviews=count if isinstance(count, int) and reviews else 0, owners=owners,
        checks=tuple((str(each.get("context")), _number(each.get("app_id", -1))) for each in listed),
        admins=body["enforce_admins"] is True,
    )  # fmt: skip


def _number(value: Json) -> int:
    return value if isinstance(value, int) else -1


def protection_shape(wall: Protection) -> JsonObject:
    """As the API shows it."""
    shown: dict[str, Json] = {
        "url": _URL,
        "enforce_admins": {"url": _URL, "enabled": wall.admins},
        "allow_force_pushes": {"enabled": False},
        "allow_deletions": {"enabled": False},
    }
    if wall.checks:
        checks: list[Json] = [{"context": name, "app_id": None if app < 0 else app} for name, app in wall.checks]
        contexts: list[Json] = [name for name, _ in wall.checks]
        shown["required_status_checks"] = {
            "url": _URL, "strict": False, "contexts": contexts, "contexts_url": _URL, "checks": checks,
            "enforcement_level": "everyone",
        }  # fmt: skip
    if wall.pulls:
        shown["required_pull_request_reviews"] = {
            "url": _URL, "dismiss_stale_reviews": True, "require_code_owner_reviews": wall.owners,
            "required_approving_review_count": wall.reviews, "require_last_push_approval": False,
        }  # fmt: skip
    return shown
