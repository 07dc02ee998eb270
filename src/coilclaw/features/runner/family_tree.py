"""Which session began which, as rows for a terminal."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coilclaw.features.runner.views import SessionView


def in_order(views: "list[SessionView]") -> "list[tuple[int, SessionView]]":
    """Each with how deep it is, below its parent; one whose parent was removed is a root."""
    known = {each.session_id for each in views}
    children: dict[str, list[SessionView]] = {}
    for each in views:
        children.setdefault(each.parent_id if each.parent_id in known else "", []).append(each)
    found: list[tuple[int, SessionView]] = []

    def add(parent: str, depth: int) -> None:
        for each in children.get(parent, ()):
            found.append((depth, each))
            add(each.session_id, depth + 1)

    add("", 0)
    return found
