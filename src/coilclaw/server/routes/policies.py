"""Policy files over HTTP: the owner's rules, read and replaced. Replacing one is the owner's alone (lane C)."""

from typing import Annotated, TypeAlias

import msgspec
from litestar import Controller, Response, get, put
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, PathParameter

from coilclaw.gate.policy_file import POLICY_BYTES
from coilclaw.server.core import Core
from coilclaw.server.entry.caller import Caller
from coilclaw.server.pages import Cursor, Limit, Page, page_of, read_cursor
from coilclaw.server.problems import NotThere, Trouble, problems
from coilclaw.server.redacting import Redacting
from coilclaw.server.routes.policy import FaultyLine, PolicyDesk, PolicyFileListed, without_secrets
from coilclaw.server.views.owner_files import (
    POLICY_NAME,
    PUT_ANSWERS,
    Edited,
    FileDesk,
    OwnerFile,
    PutFile,
    answer_edited,
    owner_file,
)

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
        policy_desk: NamedDependency[PolicyDesk],
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Page[PolicyFileListed]:
        """The policy files by name, each with everything that is wrong with it."""
        after = read_cursor(cursor, str) or ""
        found = await policy_desk.files(after, limit + 1)
        shown = [
            msgspec.structs.replace(each, name=core.said(each.name), faults=without_secrets(core, each.faults))
            for each in found
        ]
        return page_of(shown, limit, [each.name for each in found])

    @get("/{name:str}", operation_id="getPolicyFile", responses=problems(404))
    async def show(
        self,
        core: NamedDependency[Core],
        policy_desk: NamedDependency[PolicyDesk],
        file_desk: NamedDependency[FileDesk],
        file_redacting: NamedDependency[Redacting],
        name: FromPath[str],
    ) -> PolicyFileShown:
        """One policy file, by its name with `.json`."""
        path = f"{FOLDER}/{name}"
        file = await owner_file(file_redacting, file_desk, path, POLICY_BYTES) if _names_one(name) else None
        if file is None:
            raise NotThere("such policy file", "See GET /v1/policies; names end with .json.")
        data = file_desk.read(path, POLICY_BYTES) or b""
        faults = without_secrets(core, await policy_desk.faults_of(data))
        return PolicyFileShown(name=name, file=file, valid=not faults, faults=faults)

    @put("/{name:str}", operation_id="putPolicyFile", status_code=202, responses={**PUT_ANSWERS, **problems(422)})
    async def replace(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        policy_desk: NamedDependency[PolicyDesk],
        file_desk: NamedDependency[FileDesk],
        name: NewPolicyName,
        data: JSONBody[PutFile],
        request_key: NamedDependency[str | None],
    ) -> Response[Edited]:
        """Propose new content for a policy file. It waits for the owner's passkey; what would not hold is refused."""
        faults = without_secrets(core, await policy_desk.faults(name, data.content))
        if faults:
            told = "; ".join(f"line {fault.line}: {fault.text}" for fault in faults[:10])
            raise Trouble(422, "POLICY_INVALID", told, remedy="Try it with POST /v1/policy/check until it holds.")
        return answer_edited(core, await file_desk.put(f"{FOLDER}/{name}", data, by=caller.by, key=request_key))


def _names_one(name: str) -> bool:
    return name.endswith(SUFFIX) and len(name) > len(SUFFIX) and "/" not in name and "\0" not in name
