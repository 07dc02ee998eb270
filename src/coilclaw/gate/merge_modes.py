"""Merge modes: which merges the owner has answered in advance, by a setting that no pull request can reach. Pure."""

from coilclaw.packets.forge import MergeFacts
from coilclaw.packets.workspace import path_matches
from coilclaw.sandbox.executed import executed_part


def answered_in_advance(merge: MergeFacts) -> str:
    """The owner's answer to this merge, in words; empty when the owner must be asked."""
    beyond_r1 = merge.risk not in ("R0", "R1")
    if merge.governs or not merge.checks_passed or (merge.tainted and beyond_r1):
        return ""
    if any(map(executed_part, merge.paths)):  # as in every autonomy: a merge puts it where other programs run it
        return ""
    if not merge.of_job:  # modes are for jobs; a session's merges unasked only where its repository says so
        return "You enabled auto_merge for this repository." if merge.auto and not merge.tainted else ""
    if merge.mode == "yolo":
        return "The owner set the merge mode to yolo: every job's pull request merges once its checks pass."
    # No entry may cover what is R3; that is refused in config.toml, and once more here.
    if merge.mode == "whitelist" and merge.risk != "R3" and all(_listed(merge.allow, path) for path in merge.paths):
        return f"The owner's whitelist covers every path that is touched: {', '.join(merge.allow)}."
    return ""


def _listed(allow: tuple[str, ...], path: str) -> bool:
    """Whether an entry covers a path as it is spelled and with its letter case folded, so no spelling adds anything."""
    plain = path.casefold()
    return any(path_matches(entry, path) and path_matches(entry.casefold(), plain) for entry in allow)
