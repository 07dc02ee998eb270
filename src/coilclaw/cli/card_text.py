"""A card as text: one sentence, what would be done once, why it asks. Nothing is left out or said twice."""

from typing import cast

import msgspec

from coilclaw.packets.canonical import canonical_bytes, parse_object
from coilclaw.packets.card import Card
from coilclaw.packets.decision import Lane
from coilclaw.packets.text import one_line

RULE = "─" * 38
LONG = 8
"""Lines of a preview after which the sentence stands below it once more: what is asked is the last thing read."""
LANES: dict[Lane, str] = {
    "A": "stays on this machine",
    "B": "leaves this machine",
    "C": "changes what governs the agent",
}
"""Where an effect goes, in the words of the panel."""
ASKS = "asks a server outside"
"""What is only read there changes nothing, but it is asked for."""
BY_TOOL = {"pr_merge": "merges a change", "session_push": "leaves its session"}
"""They are asked like what leaves the machine, and leave it only where the pull request is elsewhere."""
_COLOURS = (
    ("  │ +", "\x1b[32m"),
    ("  │ -", "\x1b[31m"),
    ("  │ @@", "\x1b[36m"),
    ("  │ YOLO: ", "\x1b[1;31m"),
    ("  UNTRUSTED CONTENT", "\x1b[1;33m"),
    ("  FROM UNTRUSTED", "\x1b[1;33m"),
    ("Tool request:", "\x1b[1m"),
)
_END = "\x1b[0m"


def describe(card: Card) -> str:
    """The card as lines, with nothing left out."""
    preview = card.preview_or_diff.split("\n") if card.preview_or_diff else []
    if len(preview) == 3 and not preview[1] and f"Run `{preview[0]}`" == card.human_summary.rstrip("."):
        preview = preview[2:]  # the sentence is the command, and all of it
    lines = [RULE, f"Tool request: {card.human_summary}", *(f"  │ {line}" for line in preview)]
    lines += [f"  reason:  {reason}" for reason in _reasons(card)]
    named = (card.tool_name, *preview, *(line[4:] for line in preview if line.startswith(("--- ", "+++ "))))
    what, _, project = card.target_entity.rpartition(" in project ")
    if card.target_entity in named or card.target_entity in card.human_summary:
        pass  # a file can be called like that
    elif what and (what in named or what in card.human_summary):
        lines.append(f"  project: {project}")
    else:
        lines.append(f"  target:  {card.target_entity}")
    arguments = _arguments(card) if card.args != "{}" else ""
    lines += [f"  args:    {arguments}"] if arguments else []
    where = BY_TOOL.get(card.tool_name, LANES["B"]) if card.lane == "B" else LANES[card.lane]
    if card.lane == "A" and card.reaches_out:
        where = ASKS
    lines.append(f"  risk:    {card.risk_word}, {where} ({card.tool_name}, {card.digest[:16]})")
    last = closing(card)
    if len(preview) <= LONG and len(last) == 2:  # the rule and the sentence, which stands right above
        return "\n".join(lines)
    return "\n".join([*lines, *last])


def closing(card: Card) -> list[str]:
    """How a long card ends. What is asked stands last, whatever the preview shows above."""
    return [
        RULE,
        *([f"  UNTRUSTED CONTENT IN THIS CONVERSATION: {sources_of(card)}"] if card.provenance else []),
        *(f"  FROM UNTRUSTED CONTENT, NOT FROM YOU: {value}" for value in card.marked),
        f"{card.tool_name}, {card.risk_word} risk: {card.human_summary}",
    ]


def _reasons(card: Card) -> list[str]:
    """Why it asks; that a tool always does says nothing beside another reason."""
    always = f"{card.tool_name} always asks."
    return [reason for reason in card.reasons if reason != always] or list(card.reasons)


def sources_of(card: Card) -> str:
    """Where untrusted content of its conversation came from."""
    return ", ".join(label.removeprefix("untrusted:") for label in card.provenance)


def _arguments(card: Card) -> str:
    """The arguments that the sentence, the command or the difference does not show already; empty when it shows all."""
    try:
        args = msgspec.json.decode(card.args, type=dict[str, object])
    except msgspec.DecodeError:
        return card.args
    other = {name: value for name, value in args.items() if not _is_shown(card, name, value)}
    if len(other) == len(args):
        return card.args
    shown = ", ".join(name for name in args if name not in other)
    rest = one_line(msgspec.json.encode(other).decode())
    return f"{shown} as shown above; {rest}" if other else ""


def _is_shown(card: Card, name: str, value: object) -> bool:
    """Whether all of an argument stands on the card as it is. In doubt it does not."""
    if card.preview_or_diff.startswith("--- ") and (card.tool_name, name) in _IN_DIFFERENCE:
        return True  # the difference is made of the stored bytes, and the approval binds what it was compared with
    if (said := _SAID.get((card.tool_name, name))) is not None:
        return said.format(value) in f"{card.human_summary}\n{card.preview_or_diff}"
    if card.tool_name == "session_push" and isinstance(value, list):
        named = cast("list[object]", value)
        return len(named) <= _NAMED and all(str(each) in card.preview_or_diff for each in named)
    if not isinstance(value, str) or not value:
        return False
    if name == "command":
        return card.preview_or_diff.startswith(f"{value}\n\n(Runs ")
    return card.human_summary.endswith((f" {value}.", f": {value}")) or f" {value} " in card.human_summary


_IN_DIFFERENCE = {
    ("file_write", "content"), ("file_edit", "edits"),
    # what the file was and becomes, as hashes: the difference is made only if both hold
    ("settings_change", "changes"), ("settings_change", "before"), ("settings_change", "after"),
}  # fmt: skip
_SAID = {
    ("session_push", "session_id"): " of {}: ", ("session_push", "files"): "\n{} file",
    ("session_push", "head"): ", up to commit {!s:.12}.", ("session_push", "diff"): ", up to commit ",
    ("pr_merge", "number"): "Merge #{}: ", ("pr_merge", "risk"): ", risk {}, branch ",
    ("pr_merge", "head"): ", branch ", ("pr_merge", "diff"): ", branch ", ("pr_merge", "checks"): ", branch ",
}  # fmt: skip
"""How a card says an argument otherwise. Hashes of what it says are bound by its digest."""
_NAMED = 20
"""So many files of a kind are named by the card of commits that leave a session."""


def coloured(rows: list[str]) -> list[str]:
    """Rows of a card in the colours of a difference. A row that goes on has the colour of the one it belongs to."""
    from coilclaw.cli.screen_pages import CONTINUED

    shown: list[str] = []
    colour = ""
    for row in rows:
        if not row.startswith(CONTINUED):
            framed = row.replace("  | ", "  │ ", 1)  # as terminals without these signs have it
            colour = next((colour for start, colour in _COLOURS if framed.startswith(start)), "")
        shown.append(f"{colour}{row}{_END}" if colour else row)
    return shown


def editable(card: Card) -> tuple[str, str] | None:
    """The argument that the owner may write anew, and its text; None where there is none, or it would not be exact."""
    name = {"shell": "command", "file_write": "content", "file_edit": "edits", "git_commit": "message"}.get(
        card.tool_name
    )
    if name is None or "⟨U+" in card.args:  # a character shown by its number would be written as that
        return None
    try:
        if name == "edits":  # of one replacement, what is put there
            edits = msgspec.json.decode(card.args, type=_Edits).edits
            return (name, edits[0].new) if len(edits) == 1 else None
        text = msgspec.json.decode(card.args, type=dict[str, object]).get(name)
    except msgspec.DecodeError:
        return None
    return (name, text) if isinstance(text, str) else None


def with_edited(card: Card, name: str, text: str) -> bytes:
    """The arguments of a card with what the owner made of one of them."""
    args = parse_object(card.args.encode())
    edits = args.get("edits")
    if name == "edits" and isinstance(edits, list) and isinstance(edits[0], dict):
        return canonical_bytes({**args, "edits": [{**edits[0], "new": text}]})
    return canonical_bytes({**args, name: text})


class _Edit(msgspec.Struct):
    new: str


class _Edits(msgspec.Struct):
    edits: list[_Edit]


def is_own(card: Card, before: Card, args: bytes) -> bool:
    """Whether a card is for just what the owner wrote instead of another, and asks for nothing that one did not."""
    same = (card.tool_name, card.args.encode(), card.lane) == (before.tool_name, args, "A")
    return same and not card.provenance and set(card.reasons) <= set(before.reasons)
