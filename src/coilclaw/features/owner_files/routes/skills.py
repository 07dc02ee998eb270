"""Skills over HTTP: what the agent was taught, read and replaced by the owner."""

from typing import Annotated, TypeAlias

import msgspec
from litestar import Controller, Response, get, put
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, PathParameter

from coilclaw.features.owner_files.owner_files import OwnerFiles, owner_file
from coilclaw.features.owner_files.views import (
    LARGEST,
    PLAIN_NAME,
    PUT_ANSWERS,
    Edited,
    OwnerFile,
    PutFile,
    answer_edited,
)
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.text import one_line
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.pages import Cursor, Limit, Page, page_of, read_cursor
from coilclaw.server.problems import NotThere, problems
from coilclaw.server.redacting import Redacting

FOLDER = "skills"
FILE = "SKILL.md"
NewSkillName: TypeAlias = Annotated[str, PathParameter(pattern=PLAIN_NAME, description="Letters, digits and ._- only.")]
HEAD_LINES = 40
HEAD = 4096
LONGEST_DESCRIPTION = 400


class SkillListed(msgspec.Struct, frozen=True, kw_only=True):
    """A skill."""

    name: str
    description: str
    """What it is for, from the head of its file."""
    size: int
    """In bytes; 0 when its file cannot be read."""
    sha256: str
    labels: list[str]
    """Untrusted sources its content may stem from."""


class SkillShown(msgspec.Struct, frozen=True, kw_only=True):
    """A skill with its text."""

    name: str
    description: str
    file: OwnerFile


class SkillsController(Controller):
    """The agent's skills."""

    path = "/v1/skills"
    tags = ("skills",)

    @get(operation_id="listSkills")
    async def list_all(
        self,
        core: NamedDependency[Core],
        owner_files: NamedDependency[OwnerFiles],
        file_redacting: NamedDependency[Redacting],
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Page[SkillListed]:
        """The skills by name."""
        after = read_cursor(cursor, str) or ""
        names = [name for name in owner_files.folders(FOLDER) if name > after][: limit + 1]
        listed = [await _listed(core, file_redacting, owner_files, name) for name in names]
        return page_of(listed, limit, names)

    @get("/{name:str}", operation_id="getSkill", responses=problems(404))
    async def show(
        self,
        core: NamedDependency[Core],
        owner_files: NamedDependency[OwnerFiles],
        file_redacting: NamedDependency[Redacting],
        name: FromPath[str],
    ) -> SkillShown:
        """One skill."""
        file = await owner_file(file_redacting, owner_files, _path(name), LARGEST) if _names_one(name) else None
        if file is None:
            raise NotThere("such skill", "See GET /v1/skills.")
        return SkillShown(name=core.said(name), description=_description(file.content), file=file)

    @put("/{name:str}", operation_id="putSkill", status_code=202, responses=PUT_ANSWERS)
    async def replace(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        owner_files: NamedDependency[OwnerFiles],
        name: NewSkillName,
        data: JSONBody[PutFile],
        request_key: NamedDependency[str | None],
    ) -> Response[Edited]:
        """Write a skill. The owner's own request is the approval, so it is written at once where the policy lets it."""
        return answer_edited(core, await owner_files.put(_path(name), data, by=caller.by, key=request_key))


def _path(name: str) -> str:
    return f"{FOLDER}/{name}/{FILE}"


def _names_one(name: str) -> bool:
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


async def _listed(core: Core, redacting: Redacting, files: OwnerFiles, name: str) -> SkillListed:
    data = files.read(_path(name), LARGEST)
    shown = core.said(name)
    if data is None:
        return SkillListed(name=shown, description="", size=0, sha256="", labels=[])
    labels = files.labels(_path(name))

    def made() -> SkillListed:
        head = redacting.head(data.decode("utf-8", "replace"), HEAD)  # of a whole page of them no more is redacted
        return SkillListed(
            name=shown, description=_description(head), size=len(data), sha256=sha256_hex(data), labels=labels
        )

    return await redacting.aside(made)


def _description(content: str) -> str:
    """The `description:` of the head between two lines of dashes, if there is one."""
    lines = content.split("\n", HEAD_LINES)[:HEAD_LINES]
    if lines[0].strip() != "---":
        return ""
    for line in lines[1:]:
        if line.strip() == "---":
            break
        key, _, value = line.partition(":")
        if key.strip() == "description":
            return one_line(value.strip()[:LONGEST_DESCRIPTION])
    return ""
