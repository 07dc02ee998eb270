"""The policy in force: every flag and limit with where it comes from, and what a call would be told now."""

from collections.abc import Awaitable
from typing import Annotated, Protocol, runtime_checkable

import msgspec
from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from coilclaw.packets.action import Source
from coilclaw.packets.canonical import Json
from coilclaw.packets.decision import Autonomy, Decision
from coilclaw.server.core import Core
from coilclaw.server.entry.caller import Caller
from coilclaw.server.views.owner_files import LARGEST, POLICY_NAME


class EffectiveSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One option of the configuration as it is in force."""

    key: str
    """Its dotted name in config.toml."""
    value: Json
    source: str
    """`default`, `config.toml`, or `environment NAME`."""
    description: str
    next_value: Json = None
    """What the file says by now, when that differs; it holds from the next start on."""
    changes: bool = False
    """Whether the next start would bring another value."""


class EffectiveRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of a policy file. Rules only ever narrow what the configuration grants."""

    id: str
    verdict: str
    reason: str
    when: Json
    """What must hold for it to speak."""


class EffectivePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Everything decisions rest on."""

    autonomy: Autonomy
    policy_hash: str
    """Stands for everything below; every decision and receipt carries it."""
    broken: str
    """What is wrong with the policy files; while something is, only reads run. Empty when they hold."""
    rules: list[EffectiveRule]
    settings: list[EffectiveSetting]
    faults: list[str]
    """What is wrong with config.toml by now; the values in force are those of the last start."""


class FileToTry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A policy file that is not written yet."""

    name: Annotated[str, msgspec.Meta(pattern=POLICY_NAME)]
    content: Annotated[str, msgspec.Meta(max_length=LARGEST)]


class CallToCheck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call to try against the rules, and optionally a policy file as if it were there."""

    tool: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    args: dict[str, Json] = {}
    source: Source = "chat"
    """Where the call would come from."""
    taint: Annotated[list[Annotated[str, msgspec.Meta(max_length=200)]], msgspec.Meta(max_length=20)] = []
    """Untrusted content its turn would have taken in, such as `untrusted:example.com`."""
    file: FileToTry | None = None


class FaultyLine(msgspec.Struct, frozen=True, kw_only=True):
    """Something wrong with a policy file."""

    line: int
    """Counted from 1."""
    path: str
    """Where in the file, such as `$.rules[2].when`."""
    text: str


class PolicyFileListed(msgspec.Struct, frozen=True, kw_only=True):
    """A policy file."""

    name: str
    size: int
    """In bytes."""
    sha256: str
    """Empty when it is no plain file that could be read."""
    valid: bool
    faults: list[FaultyLine]
    """Everything that is wrong with it; one broken file lets nothing but reads run."""


class CheckedCall(msgspec.Struct, frozen=True, kw_only=True):
    """What the gate would say. Nothing was run and nothing is stored."""

    decision: Decision
    faults: list[FaultyLine]
    """What is wrong with the file that was tried; with any fault, the decision is that of a broken policy."""
    needs: str = ""
    """What approving it takes from this device: `passkey`, `passkey_missing` while none is registered, or nothing."""


@runtime_checkable
class PolicyDesk(Protocol):
    """The policy, as the App knows it."""

    def effective(self) -> EffectivePolicy:
        """Everything in force now."""
        ...

    def check(self, call: CallToCheck) -> Awaitable[CheckedCall]:
        """What a call would be told now."""
        ...

    def files(self, after: str, limit: int) -> Awaitable[list[PolicyFileListed]]:
        """The policy files whose names follow another, by name."""
        ...

    def faults_of(self, data: bytes) -> Awaitable[list[FaultyLine]]:
        """What is wrong with the content of a policy file by itself."""
        ...

    def faults(self, name: str, content: str) -> Awaitable[list[FaultyLine]]:
        """What would be wrong, by itself or beside the others, if a policy file held this."""
        ...


class PolicyController(Controller):
    """The policy in force."""

    path = "/v1"
    tags = ("policy",)

    @get("/settings/policy", operation_id="getPolicy")
    async def show(self, core: NamedDependency[Core], policy_desk: NamedDependency[PolicyDesk]) -> EffectivePolicy:
        """Every flag and limit in force, each with where it comes from, and the rules of the policy files."""
        found = policy_desk.effective()
        return msgspec.structs.replace(
            found,
            broken=core.said(found.broken),
            rules=[
                EffectiveRule(id=core.said(rule.id), verdict=rule.verdict, reason=core.said(rule.reason),
                              when=core.shown(rule.when))
                for rule in found.rules
            ],
            settings=[_without_secrets(core, each) for each in found.settings],
            faults=[core.said(fault) for fault in found.faults],
        )  # fmt: skip

    @post("/policy/check", operation_id="checkPolicy", status_code=200)
    async def check(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        policy_desk: NamedDependency[PolicyDesk],
        data: JSONBody[CallToCheck],
    ) -> CheckedCall:
        """The decision a call would get now; with `file`, as if that policy file held that content."""
        checked = await policy_desk.check(data)
        decision = checked.decision
        asks = decision.verdict == "ask"
        return CheckedCall(
            needs=core.approvals.owner.needed(core.db.reader, decision.lane, caller.by) if asks else "",
            decision=msgspec.structs.replace(
                decision,
                reasons=tuple(core.said(each) for each in decision.reasons),
                recommended_changes=tuple(core.said(each) for each in decision.recommended_changes),
            ),
            faults=without_secrets(core, checked.faults),
        )


def _without_secrets(core: Core, each: EffectiveSetting) -> EffectiveSetting:
    """The variable that holds a secret is named, and its name is no secret; every other value passes the redactor."""
    if each.key.endswith("_env"):
        return each
    return msgspec.structs.replace(each, value=core.shown(each.value), next_value=core.shown(each.next_value))


def without_secrets(core: Core, faults: list[FaultyLine]) -> list[FaultyLine]:
    """Faults quote the file they are found in."""
    return [FaultyLine(line=each.line, path=core.said(each.path), text=core.said(each.text)) for each in faults]
