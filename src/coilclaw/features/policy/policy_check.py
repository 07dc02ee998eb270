"""A call tried against the rules, or against the rules as they would be: decided, and nothing more."""

import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coilclaw.gate.decision_input import Setting
from coilclaw.gate.policy import decide
from coilclaw.gate.policy_file import POLICY_BYTES, LoadedPolicies, load_policies
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import Identity, Label, Source, ToolCall
from coilclaw.packets.canonical import JsonObject, NotCanonical, sha256_hex
from coilclaw.packets.decision import Decision
from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.gate.decision_input import Policy
    from coilclaw.runtime.runtime import Runtime


def decide_sample(
    app: "Runtime",
    tool: str,
    args: JsonObject,
    *,
    identity: Identity | None = None,
    source: Source,
    taint: Iterable[Label] = (),
    project_id: str = "",
    policy: "Policy | None" = None,
) -> Decision:
    """The decision a call would get now in the workspace or a project, by the rules in force or by others.

    Nothing is run and nothing is stored.
    """
    try:
        call = ToolCall.of(tool, args, identity=identity)
    except NotCanonical as error:
        raise UsageError(f"this is not a call: {error}") from error
    turn = Turn("turn_check", project_id, source)
    for label in taint:
        turn.take_in(label)
    held = call.args_bytes.decode("utf-8")
    call = msgspec.structs.replace(call, withheld=app.redactor.registered(held) != held)
    inspected = app.inspector.inspect(call, turn)
    return decide(inspected.facts, policy or app.policy(), Setting(source=source))


def policies_as_if(folder: Path, name: str, content: str, tools: Collection[str]) -> LoadedPolicies:
    """The policy files as they would be read if one of them held this. Read from a copy, by what reads them anyway."""
    from coilclaw.sandbox.files import read_existing

    with tempfile.TemporaryDirectory(prefix="coilclaw-policies-") as made:
        copy = Path(made)
        for each in _json_files(folder):
            data = read_existing(folder, each, POLICY_BYTES)
            if data is None:
                (copy / each).symlink_to("nowhere")  # it is not a regular file, and copying must not make it one
            else:
                (copy / each).write_bytes(data)
        (copy / name).unlink(missing_ok=True)
        (copy / name).write_bytes(content.encode())
        return load_policies(copy, tools)


def _json_files(folder: Path) -> list[str]:
    try:
        return sorted(each.name for each in folder.iterdir() if each.suffix == ".json")
    except OSError:
        return []


def policy_as_if(policy: "Policy", loaded: LoadedPolicies) -> "Policy":
    """The rules in force with other policy files."""
    made_up = sha256_hex(f"{policy.hash}:as if:{loaded.hash}:{loaded.broken}".encode())
    return msgspec.structs.replace(policy, rules=loaded.rules, broken=loaded.broken, hash=made_up)
