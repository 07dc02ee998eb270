"""What a patrol job is about, as its input `patrol` says it: `REPO[:ROOM] all` or `REPO[:ROOM] KIND,KIND`."""

from typing import TYPE_CHECKING, get_args

import msgspec

from coilclaw.config.runner import OFF, PatrolKind, Repo
from coilclaw.features.runner.repo_choice import named_repo
from coilclaw.features.runner.sources import RepoSource, source_called, sources_of
from coilclaw.packets.canonical import digest_of
from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

KINDS: tuple[PatrolKind, ...] = get_args(PatrolKind)
ALL = "all"
INPUT, REF, QUEST = "patrol", "patrol_ref", "patrol_quest"
"""The inputs of a patrol job: what to look at, a commit of its cache instead of the current branch, and for whom."""


class PatrolTarget(msgspec.Struct, frozen=True, kw_only=True):
    """One repository, one room or all that it names, and some kinds."""

    repo: str
    room: str | None
    """None: every room that the configuration names, or the whole repository."""
    kinds: tuple[PatrolKind, ...]
    everything: bool = False
    """All kinds were meant: those without a command are passed over."""

    @property
    def text(self) -> str:
        """As it is written in a job or a schedule."""
        room = "" if self.room is None else f":{self.room}"
        return f"{self.repo}{room} {ALL if self.everything else ','.join(self.kinds)}"


def read_target(app: "Runtime", text: str) -> PatrolTarget:
    """A target that the owner wrote; a UsageError or ToolError says what is wrong with it."""
    place, _, words = text.strip().rpartition(" ")
    name, colon, room = place.strip().partition(":")
    if not name:
        raise UsageError(f"{text[:80]!r} names no patrol.", remedy='Write "REPO KIND", such as "website test".')
    return target_of(app, name, words, room if colon else None)


def target_of(app: "Runtime", repo: str, kinds: str, room: str | None) -> PatrolTarget:
    """A target by the name or place of a repository."""
    name = repo if repo in sources_of(app) else _name_of(app, repo)
    asked: tuple[str, ...] = KINDS if kinds == ALL else tuple(dict.fromkeys(kinds.split(",")))
    chosen: tuple[PatrolKind, ...] = tuple(kind for kind in KINDS if kind in asked)
    if len(chosen) != len(asked):
        raise UsageError(f"{kinds[:80]!r} is not a kind of patrol.", remedy=f"Use {', '.join(KINDS)} or {ALL}.")
    if room is not None and any(part in ("", ".", "..") for part in room.split("/")) and room:
        raise UsageError(f"{room[:80]!r} is not a folder of a repository.", remedy="Name it as `packages/server`.")
    return PatrolTarget(repo=name, room=room, kinds=chosen, everything=kinds == ALL)


def _name_of(app: "Runtime", typed: str) -> str:
    wanted = named_repo(app, typed)
    return next(name for name, source in sources_of(app).items() if _is(source, wanted.name, wanted.owner))


def _is(source: RepoSource, name: str, owner: str) -> bool:
    return source.owner == owner and name == (source.repository if source.provider == "github" else source.name)


def settings_of(app: "Runtime", repo: str) -> Repo:
    """What the configuration says of a repository; a project has the defaults."""
    return app.config.repos.get(repo) or Repo()


def rooms_of(app: "Runtime", target: PatrolTarget) -> tuple[str, ...]:
    """The rooms that it means; the empty one is the whole repository."""
    source_called(app, target.repo)
    return (target.room,) if target.room is not None else settings_of(app, target.repo).patrol_rooms or ("",)


def parts_of(app: "Runtime", target: PatrolTarget) -> list[tuple[str, PatrolKind]]:
    """Every room and kind to look at, in order."""
    configured = settings_of(app, target.repo).patrols
    off = {kind for kind, command in configured.items() if command == OFF}
    if target.everything and "suggest" not in configured:
        off.add("suggest")  # it starts programs that cost, so it is never merely found
    return [(room, kind) for room in rooms_of(app, target) for kind in target.kinds if kind not in off]


def run_id_of(job_id: str, room: str, kind: str) -> str:
    """The run of one part of a job: the same one however often it is begun."""
    return f"patrol_{job_id.removeprefix('job_')}{digest_of(b'patrol', room.encode(), kind.encode())[:10]}"
