"""Workspace paths that the agent may not change, by their first part."""

RUNTIME_ONLY = (".git", "audit", "jobs")
"""Only the runtime writes here."""
GIT_ONLY = (".git",)
"""The same in a project, where every other name is the project's own."""
OWNER_ONLY = ("SYSTEM.md", "policies", ".github", "agent")
"""These govern the agent: only the owner changes them (lane C)."""
GOVERNING = (*OWNER_ONLY, "CODEOWNERS")
"""A pull request that touches one of these is of the highest risk (R3)."""


def path_matches(pattern: str, path: str) -> bool:
    """Whether a pattern covers a path: `*` and `?` stay within a name, `**` stands for any number of folders.

    A deep path costs no more than its depth times the pattern's: only the last `**` ever needs to take another folder.
    """
    from fnmatch import fnmatchcase

    wanted, parts = pattern.split("/"), path.split("/")
    at = here = 0
    resume: tuple[int, int] | None = None
    while here < len(parts):
        if at < len(wanted) and wanted[at] == "**":
            at += 1
            resume = at, here
        elif at < len(wanted) and fnmatchcase(parts[here], wanted[at]):
            at, here = at + 1, here + 1
        elif resume is not None:
            resume = at, here = resume[0], resume[1] + 1
        else:
            return False
    return all(part == "**" for part in wanted[at:])
