"""Joining labels into one string that names every source, and splitting it again.

`untrusted:a.example,b.example` labels content that came from both. Joining loses no source, and the order in
which labels are joined does not matter.
"""

from collections.abc import Iterable

from coilclaw.packets.action import INTERNAL, OWNER, Label

_UNTRUSTED = "untrusted:"
_NAMELESS = "unknown"


def is_untrusted(label: Label) -> bool:
    """Whether somebody other than the owner or the runtime wrote it. An unknown label is not trusted."""
    return label not in (OWNER, INTERNAL)


def split_label(label: Label) -> tuple[Label, ...]:
    """The label of each source separately, sorted; a label without a source counts as one unknown source."""
    if not is_untrusted(label):
        return (label,)
    names = {part.strip() or _NAMELESS for part in label.removeprefix(_UNTRUSTED).split(",")}
    return tuple(f"{_UNTRUSTED}{name}" for name in sorted(names))


def join_labels(labels: Iterable[Label]) -> Label:
    """The label of content made from all of these: every untrusted source; else `owner` if all are the owner's."""
    found = set(labels)
    names = {part.removeprefix(_UNTRUSTED) for each in found if is_untrusted(each) for part in split_label(each)}
    if names:
        return _UNTRUSTED + ",".join(sorted(names))
    return OWNER if found == {OWNER} else INTERNAL


def untrusted_only(labels: Iterable[Label]) -> tuple[Label, ...]:
    """Each untrusted source once, separately, sorted."""
    if not labels:
        return ()
    return tuple(sorted({part for each in labels if is_untrusted(each) for part in split_label(each)}))


def mark(content: str, label: str, message_id: str) -> str:
    """Content for the model: text by others is enclosed in marks that its author cannot have known."""
    if not is_untrusted(label):
        return content
    name = f"{label} {message_id}"
    return f"[{name} begins]\n{content}\n[{name} ends]"
