"""The policy as it is said over HTTP."""

from typing import Annotated

import msgspec

from coilclaw.features.owner_files.views import LARGEST, POLICY_NAME
from coilclaw.features.policy.policy_faults import FaultyLine
from coilclaw.packets.action import Identity, Source
from coilclaw.packets.canonical import Json
from coilclaw.packets.decision import Autonomy, Decision


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
    identity: Identity | None = None
    """In whose name it would act, where a tool needs to know."""
    args: dict[str, Json] = {}
    source: Source = "chat"
    """Where the call would come from."""
    taint: Annotated[list[Annotated[str, msgspec.Meta(max_length=200)]], msgspec.Meta(max_length=20)] = []
    """Untrusted content its turn would have taken in, such as `untrusted:example.com`."""
    file: FileToTry | None = None


class PolicyFileListed(msgspec.Struct, frozen=True, kw_only=True):
    """A policy file."""

    name: str
    size: int
    """In bytes."""
    sha256: str
    """Empty if it is not a regular file or cannot be read."""
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
