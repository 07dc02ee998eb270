"""Policy files over HTTP: the owner's rules, read and replaced. Replacing one is the owner's alone (lane C)."""

from typing import Annotated, TypeAlias

import msgspec
from litestar import Controller, Response, get, put
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, PathParameter

from coilclaw.features.owner_files.owner_files import OwnerFiles, owner_file
from coilclaw.features.owner_files.views import (
    POLICY_NAME,
    PUT_ANSWERS,
    Edited,
    OwnerFile,
    PutFile,
    answer_edited,
)
from coilclaw.features.policy.policies import Policies
from coilclaw.features.policy.policy_faults import FaultyLine
from coilclaw.features.policy.routes.policy import without_secrets
from coilclaw.features.policy.views import PolicyFileListed
from coilclaw.gate.policy_file import POLICY_BYTES
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.pages import Cursor, Limit, Page, page_of, read_cursor
from coilclaw.server.problems import NotThere, Trouble, problems
from coilclaw.server.redacting import Redacting

FOLDER = "policies"
SUFFIX = ".json"
NewPolicyName: TypeAlias = Annotated[
    str, PathParameter(pattern=POLICY_NAME, description="Letters, digits and ._- with .json at the end.")
]


class PolicyFileShown(msgspec.Struct, frozen=True, kw_only=True):
    """A policy file with its content."""

    name: str
    file: OwnerFile
    valid: bool
    faults: list[FaultyLine]


class PoliciesController(Controller):
    """The owner's policy files."""

    path = "/v1/policies"
    tags = ("policy",)

    @get(operation_id="listPolicies")
    async def list_all(
        self,
        core: NamedDependency[Core],
        policies: NamedDependency[Policies],
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Page[PolicyFileListed]:
        """The policy files by name, each with everything that is wrong with it."""
        after = read_cursor(cursor, str) or ""
        found = await policies.files(after, limit + 1)
        shown = [
            msgspec.structs.replace(each, name=core.said(each.name), faults=without_secrets(core, each.faults))
            for each in found
        ]
        return page_of(shown, limit, [each.name for each in found])

    @get("/{name:str}", operation_id="getPolicyFile", responses=problems(404))
    async def show(
        self,
        core: NamedDependency[Core],
        policies: NamedDependency[Policies],
        owner_files: NamedDependency[OwnerFiles],
        file_redacting: NamedDependency[Redacting],
        name: FromPath[str],
    ) -> PolicyFileShown:
        """One policy file, by its name with `.json`."""
        path = f"{FOLDER}/{name}"
        file = await owner_file(file_redacting, owner_files, path, POLICY_BYTES) if _names_one(name) else None
        if file is None:
            raise NotThere("such policy file", "See GET /v1/policies; names end with .json.")
        data = owner_files.read(path, POLICY_BYTES) or b""
        faults = without_secrets(core, await policies.faults_of(data))
        return PolicyFileShown(name=name, file=file, valid=not faults, faults=faults)

    @put("/{name:str}", operation_id="putPolicyFile", status_code=202, responses={**PUT_ANSWERS, **problems(422)})
    async def replace(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        policies: NamedDependency[Policies],
        owner_files: NamedDependency[OwnerFiles],
        name: NewPolicyName,
        data: JSONBody[PutFile],
        request_key: NamedDependency[str | None],
    ) -> Response[Edited]:
        """Propose new content for a policy file. It waits for the owner's passkey; what would not hold is refused."""
        faults = without_secrets(core, await policies.faults(name, data.content))
        if faults:
            told = "; ".join(f"line {fault.line}: {fault.text}" for fault in faults[:10])
            raise Trouble(422, "POLICY_INVALID", told, remedy="Test it with POST /v1/policy/check until it is valid.")
        return answer_edited(core, await owner_files.put(f"{FOLDER}/{name}", data, by=caller.by, key=request_key))


def _names_one(name: str) -> bool:
    return name.endswith(SUFFIX) and len(name) > len(SUFFIX) and "/" not in name and "\0" not in name
