"""Skills over HTTP: what they say, what is wrong with them, what they narrow and where they were used."""

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
from coilclaw.features.skills.skill import FILE, FOLDER
from coilclaw.features.skills.views import SkillDetails, SkillShelf, SkillUsed
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.pages import Cursor, Limit, Page, page_of, read_cursor
from coilclaw.server.problems import NotThere, problems
from coilclaw.server.redacting import Redacting

NewSkillName: TypeAlias = Annotated[str, PathParameter(pattern=PLAIN_NAME, description="Letters, digits and ._- only.")]


class SkillShown(msgspec.Struct, frozen=True, kw_only=True):
    """A skill with its text."""

    name: str
    details: SkillDetails
    uses: list[SkillUsed]
    """Where it was used, the newest first."""
    file: OwnerFile


class SkillsController(Controller):
    """The owner's skills."""

    path = "/v1/skills"
    tags = ("skills",)

    @get(operation_id="listSkills")
    async def list_all(
        self,
        core: NamedDependency[Core],
        skill_shelf: NamedDependency[SkillShelf],
        file_redacting: NamedDependency[Redacting],
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Page[SkillDetails]:
        """The skills by name."""
        after = read_cursor(cursor, str) or ""
        files = [file for file in skill_shelf.every() if file.name > after][: limit + 1]

        def made() -> list[SkillDetails]:
            return [skill_shelf.details(core.said, file) for file in files]

        return page_of(await file_redacting.aside(made), limit, [file.name for file in files])

    @get("/{name:str}", operation_id="getSkill", responses=problems(404))
    async def show(
        self,
        core: NamedDependency[Core],
        owner_files: NamedDependency[OwnerFiles],
        skill_shelf: NamedDependency[SkillShelf],
        file_redacting: NamedDependency[Redacting],
        name: FromPath[str],
    ) -> SkillShown:
        """One skill."""
        there = skill_shelf.one(name)
        file = None if there is None else await owner_file(file_redacting, owner_files, _path(name), LARGEST)
        if there is None or file is None:
            raise NotThere("such skill", "See GET /v1/skills.")
        return SkillShown(
            name=core.said(name),
            details=await file_redacting.aside(lambda: skill_shelf.details(core.said, there)),
            uses=skill_shelf.uses(core.said, name),
            file=file,
        )

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
