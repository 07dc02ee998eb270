"""The policy: what is in force, what a call would be told, what is wrong with a policy file."""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.policy.effective_config import effective_settings
from coilclaw.features.policy.policy_check import decide_sample, policies_as_if, policy_as_if
from coilclaw.features.policy.policy_faults import FaultyLine, policy_faults
from coilclaw.features.policy.views import (
    CallToCheck,
    CheckedCall,
    EffectivePolicy,
    EffectiveRule,
    EffectiveSetting,
    PolicyFileListed,
)
from coilclaw.gate.policy_file import POLICY_BYTES
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import ToolError

if TYPE_CHECKING:
    from pathlib import Path

    from coilclaw.gate.policy_file import LoadedPolicies
    from coilclaw.runtime.runtime import Runtime

FOLDER = "policies"
MOST_FILES = 1000


class Policies:
    """The policy of one home."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app

    def effective(self) -> EffectivePolicy:
        """Everything in force now."""
        policy = self._app.policy()
        settings, faults = effective_settings(self._app)
        return EffectivePolicy(
            autonomy=policy.autonomy,
            policy_hash=policy.hash,
            broken=policy.broken,
            rules=[
                EffectiveRule(id=rule.id, verdict=rule.verdict, reason=rule.reason, when=msgspec.to_builtins(rule.when))
                for rule in policy.rules
            ],
            settings=[msgspec.convert(each, EffectiveSetting, from_attributes=True) for each in settings],
            faults=faults,
        )

    async def check(self, call: CallToCheck) -> CheckedCall:
        """What a call would be told now, or if a policy file held something else."""
        policy = self._app.policy()
        faults: list[FaultyLine] = []
        if call.file is not None:
            faults = await self.faults(call.file.name, call.file.content)
            policy = policy_as_if(policy, await self._as_if(call.file.name, call.file.content))
        decision = decide_sample(
            self._app,
            call.tool,
            call.args,
            identity=call.identity,
            source=call.source,
            taint=call.taint,
            policy=policy,
        )
        return CheckedCall(decision=decision, faults=faults)

    async def _as_if(self, name: str, content: str) -> "LoadedPolicies":
        return await asyncio.to_thread(policies_as_if, self._folder, name, content, self._app.tools)

    @property
    def _folder(self) -> "Path":
        return self._app.workspace / FOLDER

    async def faults_of(self, data: bytes) -> list[FaultyLine]:
        """What is wrong with the content of a policy file by itself."""
        return await asyncio.to_thread(policy_faults, data, self._app.tools)

    async def faults(self, name: str, content: str) -> list[FaultyLine]:
        """What would be wrong, by itself or beside the others, if a policy file held this."""
        own = await self.faults_of(content.encode())
        if own or self._app.policy().broken:  # what is broken already says so itself
            return own
        loaded = await self._as_if(name, content)
        return [FaultyLine(line=1, path="$", text=loaded.broken)] if loaded.broken else []

    async def files(self, after: str, limit: int) -> list[PolicyFileListed]:
        """The policy files whose names follow another, by name."""
        return await asyncio.to_thread(self._files, after, limit)

    def _files(self, after: str, limit: int) -> list[PolicyFileListed]:
        from coilclaw.sandbox.files import FileGrant, WorkspaceFiles

        grant = FileGrant(asked=FOLDER, root=str(self._app.workspace), relative=FOLDER, writable=False)
        try:
            entries = WorkspaceFiles((grant,)).list(FOLDER, limit=MOST_FILES)
        except ToolError:
            return []
        names = [entry.name for entry in entries if entry.name.endswith(".json") and entry.name > after]
        return [self._listed(name) for name in names[:limit]]

    def _listed(self, name: str) -> PolicyFileListed:
        from coilclaw.sandbox.files import read_existing

        data = read_existing(self._folder, name, POLICY_BYTES)
        if data is None:
            fault = FaultyLine(line=1, path="$", text=f"it is not a regular file of at most {POLICY_BYTES} bytes")
            return PolicyFileListed(name=name, size=0, sha256="", valid=False, faults=[fault])
        faults = policy_faults(data, self._app.tools)
        return PolicyFileListed(name=name, size=len(data), sha256=sha256_hex(data), valid=not faults, faults=faults)
