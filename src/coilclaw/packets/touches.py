"""What a call would touch, as its tool derives it from the arguments before the decision."""

from typing import Annotated

import msgspec

from coilclaw.packets.action import Identity, Label
from coilclaw.packets.canonical import Json
from coilclaw.packets.decision import Verdict
from coilclaw.packets.errors import ToolError
from coilclaw.packets.forge import MergeFacts
from coilclaw.packets.http import FetchRequest, Principal, SendTarget


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One exact replacement in a file."""

    old: Annotated[
        str,
        msgspec.Meta(description="The exact text in the file, with its white space; no line numbers.", min_length=1),
    ]
    new: Annotated[str, msgspec.Meta(description="The replacement; may be empty.")]
    all: Annotated[
        bool, msgspec.Meta(description="Replace every occurrence; otherwise `old` must occur exactly once.")
    ] = False


class Restore(msgspec.Struct, frozen=True, kw_only=True):
    """What would be brought back."""

    snapshot: str
    """As it was before that one; empty for the last turn's first."""
    paths: tuple[str, ...] = ()
    """Only these files and nothing else; empty for everything that changed since."""

    def args(self) -> dict[str, Json]:
        """The arguments of the call that brings it back, without those that say nothing."""
        return {"snapshot": self.snapshot, **({"paths": list(self.paths)} if self.paths else {})}

    def covers(self, path: str) -> bool:
        """Whether a file is among them, or a folder, which ends with a slash, has one of them in it."""
        return (
            not self.paths or path in self.paths or (path[-1:] == "/" and any(p.startswith(path) for p in self.paths))
        )


class Permit(msgspec.Struct, frozen=True, kw_only=True):
    """What the lists of a coding session say to something that its program wants to do in its own box.

    The call itself does nothing: it is the program's leave to go on, good for one time that it asks.
    """

    verdict: Verdict
    text: str
    """Why, in a sentence."""


class Touches(msgspec.Struct, frozen=True, kw_only=True):
    """What a call would touch, derived from its arguments before the decision."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    """Files whose content is part of the effect: an approval binds their content."""
    removes: str | None = None
    """A file or folder to be removed, with everything in it."""
    moves: tuple[str, str] | None = None
    """A file or folder and its new name."""
    overwrites: bool = False
    """The move may replace a file."""
    edits: tuple[Edit, ...] = ()
    """The edits to its only input, written back there."""
    searches: bool = False
    """It reads only files below its path; each result carries the labels of its files."""
    command: str | None = None
    domains: tuple[str, ...] = ()
    """Domains that the command would reach through its box's broker."""
    seconds: int | None = None
    """The command's timeout, if the call sets one; otherwise the configuration's applies."""
    background: bool = False
    """The command runs in the background of the conversation or job that started it."""
    handle: str | None = None
    """The background command whose output it returns."""
    requests: tuple[FetchRequest, ...] = ()
    """Every request the call would make: one, and the lookup of whether it arrived."""
    says: str | None = None
    """The question to the owner, if the call only asks."""
    public: bool = False
    """It brings nothing that was kept: the time, or what the owner answers."""
    restores: Restore | None = None
    """The files it would bring back."""
    subject: str = ""
    """Its subject, if it names no file, address or command."""
    commits: tuple[str, ...] | None = None
    """Files and folders of a project whose changes it would commit; empty for everything that changed."""
    releases: str | None = None
    """The action whose quarantined files it would release."""
    merge: MergeFacts | None = None
    """The merge it would make, for the owner's mode to answer."""
    governs: bool = False
    """This very call changes what governs the agent, though not every call of its tool does."""
    guest: str = ""
    """The guest it would call; if that has network access, the model's text leaves with the call."""
    tightens: bool = False
    """It only takes something away from the agent: no autonomy keeps the owner from that."""
    in_workspace: bool = False
    """Its paths lie in the workspace, also where its conversation works in a project."""
    permit: Permit | None = None
    """It lets the program of a coding session go on, in its own box."""
    fault: ToolError | None = None
    """Why the call can only fail, as far as its tool knows before the decision."""
    content: tuple[bytes, ...] = ()
    """What it would send or answer, as fetched: shown on the card, and an approval binds it like an input."""

    outlasts: bool = False
    """It continues unattended after the turn: work in the background, a message that reaches the owner."""
    foreign: tuple[str, ...] = ()
    """Values of the effect that came from an account, such as recipients: always marked on the card."""
    text: str = ""
    """The words it would send, if they are not in its arguments: marked like those."""
    labels: tuple[Label, ...] = ()
    """The untrusted sources of what it would send, as far as that is known from when it was made."""

    def __post_init__(self) -> None:
        # The gate judges the first and shows it to the owner. Any other would go out unseen.
        if self.principal == "google":  # whose every address the airlock holds to a closed list, by identity
            if any((each.principal, each.identity) != ("google", self.requests[0].identity) for each in self.requests):
                raise ValueError("a call at Google is made in one name")
            return
        for request in self.requests[1:]:
            if request.purpose != "lookup" or request.target is None or request.target != self.target:
                raise ValueError("a call declares one request, and at most lookups at the same named target")

    @property
    def url(self) -> str | None:
        """The address that the gate decides on and shows."""
        return self.requests[0].url if self.requests else None

    @property
    def principal(self) -> Principal | None:
        """The principal of the request."""
        return self.requests[0].principal if self.requests else None

    @property
    def identity(self) -> Identity | None:
        """In whose name the request is made."""
        return self.requests[0].identity if self.requests else None

    @property
    def target(self) -> SendTarget | None:
        """The owner's configured target, if the call sends to one."""
        return self.requests[0].target if self.requests else None

    @property
    def sends(self) -> bool:
        """Whether the call's effect is a request."""
        return any(request.purpose == "effect" for request in self.requests)
