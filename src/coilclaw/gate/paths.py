"""Paths: what a name really points at, and which class of place that is."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from coilclaw.packets.workspace import GIT_ONLY, OWNER_ONLY, RUNTIME_ONLY
from coilclaw.sandbox.executed import executed_part, is_dot_git

if TYPE_CHECKING:
    from coilclaw.sandbox.missing_programs import Sight

PathClass: TypeAlias = Literal["never", "owner", "executed", "guarded", "informal", "plain"]
"""never: the runtime's alone · owner: lane C · executed: asks in every autonomy, denied when tainted ·
guarded: R2, denied when tainted · informal: R1 · plain: R2."""

CLASS_OF_TOP: dict[str, PathClass] = {
    "audit": "never",
    "jobs": "never",
    "system.md": "owner",
    "policies": "owner",
    ".github": "owner",
    "agent": "owner",
    "skills": "guarded",
    "sops": "guarded",
    "cron": "guarded",
    "intel": "informal",
    "memory": "informal",
}


class PathFact(msgspec.Struct, frozen=True, kw_only=True):
    """Where a path asked for really leads."""

    asked: str
    absolute: str
    relative: str | None
    """Below the workspace, or None when it is outside. Empty means the workspace itself."""
    path_class: PathClass
    forbidden_by: str
    """The forbidden path it lies under, or empty."""
    in_home: bool
    write: bool
    boxed: bool
    """Named in a command: inside the box the system is read-only and /tmp is its own."""
    fault: str
    """Why the name cannot be a path at all, or empty."""
    state: str = ""
    """What stands there, for what a call would move or remove: a yes, and the run, are for that and nothing else."""
    within: bool = False
    """Part of a folder that the call names."""
    lent: bool = False
    """In a folder of programs that every box shows, read-only."""
    lendable: str = ""
    """For a program of the folder that lies outside: what the owner can lend to boxes so that it runs."""


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """The places every path is held against, already resolved."""

    workspace: str
    """The root: the folder that paths are relative to, and the only one that may be changed."""
    project: bool
    """Whether it is one of the owner's own folders. What governs the agent has no place there, so no name stands for
    that: `skills/` or `SYSTEM.md` of a project are ordinary files."""
    home: str
    """CoilClaw's own home: never visible to any tool."""
    user_home: str
    """What `~` means."""
    forbidden: tuple[str, ...]
    toolchains: tuple[str, ...] = ()
    """Folders of programs that every box shows, read-only."""

    @classmethod
    def of(
        cls, workspace: Path, home: Path, user_home: Path, forbidden: tuple[str, ...], *, project: bool = False,
        toolchains: tuple[str, ...] = (),
    ) -> "Places":  # fmt: skip
        """Resolve the links in all of them once."""
        return cls(
            workspace=os.path.realpath(workspace),
            project=project,
            home=os.path.realpath(home),
            user_home=str(user_home),
            forbidden=tuple(dict.fromkeys(p for path in forbidden for p in (path, os.path.realpath(path)))),
            toolchains=toolchains,
        )

    def classify(self, relative: str, *, link: bool = False) -> PathClass:
        """The class of a path below the root; with `link`, of a link."""
        return classify(relative, project=self.project, link=link)

    def may_restore(self, path: str) -> bool:
        """An undo brings back what commands can reach: not what the runtime or the owner alone writes."""
        return self.classify(path) not in ("never", "owner")

    def governs(self, path: str) -> bool:
        """What governs the agent comes back by name only, on a card of lane C."""
        return self.classify(path) == "owner"

    def restored(self, path: str) -> PathFact:
        """A path that an undo puts back: no link is followed there, so the name is where it leads."""
        return PathFact(
            asked=path,
            absolute=os.path.join(self.workspace, path),  # noqa: PTH118 - text in, text out
            relative=path,
            path_class=self.classify(path),
            forbidden_by="",
            in_home=False,
            write=True,
            boxed=False,
            fault="",
        )

    def held_by_boxes(self, path: str) -> bool:
        """Whether a running box may hold a mount on it, which replacing the file would lift."""
        return self.classify(path) in ("owner", "executed")

    def may_restore_tainted(self, path: str) -> bool:
        """The same while untrusted content is about: nothing that other programs run by themselves."""
        return self.classify(path) not in ("never", "owner", "executed")


def _under(path: str, top: str) -> bool:
    return path == top or path.startswith(top if top == "/" else top + "/")


def classify(relative: str, *, project: bool = False, link: bool = False) -> PathClass:
    """The class of a path inside the workspace or a project (docs/policy.md has the table).

    Letter case is folded, so that the classes also hold where the file system folds it.
    """
    parts = PurePosixPath(relative.casefold()).parts
    if not parts:
        return "plain"
    if any(map(is_dot_git, parts)):
        return "never"
    known = None if project else CLASS_OF_TOP.get(parts[0])
    if known not in ("never", "owner") and executed_part(relative, link=link):
        return "executed"
    if parts == ("memory", "preferences.md") and not project:
        return "guarded"
    if known is not None:
        return known
    return "guarded" if any(part.startswith(".") for part in parts) else "plain"


def _absolute(asked: str, places: Places) -> str:
    if asked == "~" or asked.startswith("~/"):
        asked = places.user_home + asked[1:]
    elif asked.startswith("~"):
        asked = os.path.expanduser(asked)  # noqa: PTH111 - somebody else's home, as a shell would read it
    return os.path.join(places.workspace, asked)  # noqa: PTH118 - text in, text out


def look_at(asked: str, places: Places, *, write: bool, boxed: bool = False, follow: bool = True) -> PathFact:
    """Resolve a path against links and dots, and say where it lies; without `follow`, a link is meant itself."""
    fault = ""
    if "\0" in asked:
        fault = "the path contains a NUL byte"
    elif not asked:
        fault = "the path is empty"
    elif len(asked.encode("utf-8", "surrogatepass")) > 4096:
        fault = "the path is longer than 4096 bytes"
    named = absolute = "/"
    try:
        if not fault:
            named = _absolute(asked, places)
            absolute = os.path.realpath(named) if follow else _real_name(named)
    except (OSError, ValueError) as error:
        absolute, fault = "/", f"the path cannot be resolved ({error})"
    if write and not fault and not _is_text(absolute):
        absolute, fault = "/", "it points to a name that is not UTF-8 text"
    relative = None
    if not fault and _under(absolute, places.workspace):
        relative = absolute[len(places.workspace) :].lstrip("/")
    # The name as asked is held against the forbidden places too: a link must not excuse it.
    spelled = os.path.normpath(named) if not fault else "/"
    forbidden_by = next((top for top in places.forbidden if _under(absolute, top) or _under(spelled, top)), "")
    if relative is not None and _under(places.workspace, forbidden_by or "\0"):
        forbidden_by = ""  # the owner put the workspace itself below a forbidden path
    return PathFact(
        asked=asked,
        absolute=absolute,
        relative=relative,
        path_class=_class_of(relative, spelled, places, write=write) if relative is not None else "plain",
        forbidden_by="" if fault else forbidden_by,
        in_home=not fault and _under(absolute, places.home),
        write=write,
        boxed=boxed,
        fault=fault,
        lent=not fault and any(_under(absolute, top) for top in places.toolchains),
        lendable=_lendable(spelled, places) if boxed and relative is None and not (write or fault) else "",
    )


def sight_of(places: Places, environ: Mapping[str, str]) -> "Sight":
    """The folder that commands run in, beside what its owner has and boxes do not see."""
    from coilclaw.sandbox.missing_programs import Sight

    search_path = environ.get("PATH", "")
    return Sight(
        folder=places.workspace, user_home=places.user_home, search_path=search_path, lent=places.toolchains,
        apart=(places.home, *places.forbidden),
    )  # fmt: skip


def _lendable(spelled: str, places: Places) -> str:
    if not _under(spelled, places.workspace):
        return ""
    from coilclaw.sandbox.missing_programs import lendable

    return lendable(spelled, places.user_home, (places.workspace, places.home, *places.forbidden))


def _real_name(path: str) -> str:
    """A name in its real folder; what it leads to is not asked."""
    folder, name = os.path.split(path.rstrip("/"))
    if name in ("", ".", ".."):
        return os.path.realpath(path)
    return os.path.join(os.path.realpath(folder), name)  # noqa: PTH118 - text in, text out


def _class_of(relative: str, spelled: str, places: Places, *, write: bool) -> PathClass:
    """The class of a path by where it leads; a link does not excuse the name it was asked by."""
    path_class = places.classify(relative)
    if not write or path_class in ("never", "owner"):
        return path_class
    from coilclaw.sandbox.survey import completes_repository

    if completes_repository(Path(places.workspace), relative):
        return "never"
    if _under(spelled, places.workspace) and executed_part(spelled[len(places.workspace) :].lstrip("/")):
        return "executed"
    return path_class


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


UPLOADS = "attachments"
"""Where the owner's uploads go; the folder is made by the runtime."""
GUARDED = ("skills", "sops", "cron", "memory/PREFERENCES.md")
STARTING = ("sops", "cron")
"""What stands there begins turns, as the owner's words."""


def starts_work(relative: str | None) -> bool:
    """Whether a path of the workspace is one that begins turns."""
    return relative is not None and relative.casefold().partition("/")[0] in STARTING


def box_read_only(
    places: Places, repositories: Iterable[str], *, guarded: bool, starting: bool, informal: bool = False
) -> tuple[str, ...]:
    """The paths of a root that a boxed command may not write; with `guarded` also what steers later work, with
    `starting` what begins it, with `informal` what is kept as memory.

    The repositories are those below the root, as a survey found them.
    """
    workspace = Path(places.workspace)
    names = [*GIT_ONLY] if places.project else [*RUNTIME_ONLY, *OWNER_ONLY]
    if guarded:
        names += () if places.project else GUARDED
        with suppress(OSError):  # a vanished workspace is the box's to report
            names += sorted(entry.name for entry in workspace.iterdir() if entry.name.startswith("."))
    if starting and not places.project:
        names += STARTING
    if informal and not places.project:
        names += (name for name, kind in CLASS_OF_TOP.items() if kind == "informal")
    found = (path for path in repositories if path and not os.path.islink(workspace / path))  # noqa: PTH114
    return tuple(dict.fromkeys(os.path.join(workspace, name) for name in (*names, *found)))  # noqa: PTH118
