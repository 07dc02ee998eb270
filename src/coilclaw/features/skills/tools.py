"""skill_use: the model takes up a skill that no words matched, or reads one of its references.

Every start of the agent imports this, with skills or without: it must stay small.
"""

from typing import TYPE_CHECKING, Annotated

import msgspec

from coilclaw.packets.action import INTERNAL, OWNER
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, Tool, ToolOutput, Touches
from coilclaw.tools.declare import tool

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

REFERENCE_BYTES = 64 << 10


class SkillUseArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of skill_use."""

    name: Annotated[str, msgspec.Meta(description="The skill.", max_length=64, pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    reference: Annotated[
        str,
        msgspec.Meta(
            description="A file of its references/ to read; without it, the skill is taken up.",
            max_length=200,
            pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*)?$",
        ),
    ] = ""


def _path(args: SkillUseArgs) -> str:
    return f"skills/{args.name}/{f'references/{args.reference}' if args.reference else 'SKILL.md'}"


def skill_tools(runtime: "Runtime | None") -> tuple[Tool, ...]:
    """The tool of skills; without a home it can only be described."""

    @tool(
        SkillUseArgs,
        effect="READ",
        destination="internal",
        idempotent=True,
        always_ask=False,
        touches=lambda args: Touches(reads=(_path(args),), in_workspace=True),
        summary=lambda args: f"Read {_path(args)}." if args.reference else f"Work by the skill {args.name}.",
    )
    async def skill_use(args: SkillUseArgs, context: Context) -> ToolOutput:
        """Take up one of the owner's skills for the rest of this turn, or read one of its reference files."""
        if runtime is None or context.files is None or context.starter is None:
            raise ToolError("using skills was not granted to this call.", code="NOT_GRANTED", begun=False)
        if args.reference:
            data = context.files.read(_path(args), max_bytes=REFERENCE_BYTES)
            return ToolOutput(text=data.decode("utf-8", "replace"), label=OWNER, metadata={"bytes": len(data)})
        from coilclaw.features.skills.taking import take_up

        use = await take_up(runtime, args.name, context.starter)
        left = "no fewer tools than before" if use.tools is None else f"these tools: {', '.join(use.tools)}"
        return ToolOutput(
            text=f"You work by the skill {use.skill} from here on; its text stands in your instructions. It leaves"
            f" {left}.",
            label=INTERNAL,
            metadata={"skill": use.skill, "sha256": use.sha256},
        )

    return (skill_use,)
