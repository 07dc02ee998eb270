"""Searching files for a call: what rules keep from readers is passed over, and what is found has its labels."""

import os
from collections.abc import Awaitable, Callable

import msgspec

from coilclaw.gate.facts import Inspected
from coilclaw.gate.paths import Places
from coilclaw.gate.policy_file import PolicyRule
from coilclaw.gate.policy_match import is_path_of, unreadable_paths
from coilclaw.packets.action import Source
from coilclaw.packets.errors import ToolError
from coilclaw.packets.search import SearchFound, SearchQuery
from coilclaw.sandbox.executed import is_dot_git
from coilclaw.sandbox.search import search_files

HIDDEN = "Files that policy rules or forbidden paths keep from you are left out."


def searcher(
    inspected: Inspected, rules: tuple[PolicyRule, ...], source: Source
) -> Callable[[SearchQuery], Awaitable[SearchFound]]:
    """The search that one call was granted: below the path it named, without what rules keep from readers."""
    granted = {path.asked: path for path in inspected.facts.paths if not path.write and not path.boxed}
    places, labels = inspected.root.places, inspected.root.labels
    hidden = (*unreadable_paths(rules, source), *_forbidden(places))

    async def search(query: SearchQuery) -> SearchFound:
        path = granted.get(query.path)
        if path is None or path.relative is None or any(map(is_dot_git, path.relative.split("/"))):
            where = "is not granted" if path is None else "is outside the workspace, or in a repository's own data"
            raise ToolError(f"{query.path} {where}; it is not searched.", code="NOT_GRANTED", begun=False)
        held = labels.labels_of_found((("", "", 0),))  # a command that ends meanwhile lets go of its labels
        found = await search_files(places.workspace, path.relative, query, hidden)
        # The program passes over what is hidden; that nothing of it is shown does not depend on that.
        files = tuple(each for each in found.files if not is_path_of(hidden, each.path))
        carried = labels.labels_of_found([(each.path, each.sha256, each.size) for each in files])
        notes = (*found.notes, HIDDEN) if hidden and (found.hid or len(files) < len(found.files)) else found.notes
        return msgspec.structs.replace(found, files=files, notes=notes, labels=tuple(sorted({*held, *carried})))

    return search


def _forbidden(places: Places) -> list[str]:
    """Forbidden places inside the root, as rules would write them."""
    top = places.workspace
    inside = [path for path in (*places.forbidden, places.home) if path.startswith(f"{top}/")]
    return [f"{os.path.relpath(path, top)}/**" for path in inside]
