# ruff: noqa: PTH102, PTH112 - kernel paths and descriptors; pathlib adds nothing here
"""A private mount namespace in which the workspace is mapped to another uid, or made noexec, before the box is built.

Standard library only: the launcher does this in its own user namespace, root in a separate thread.
"""

import os

BASE = "/sys"
"""Covered by our own tmpfs: it exists everywhere, no box shows it, and any uid may traverse it."""
WORKSPACE = f"{BASE}/workspace"
ROOT = f"{BASE}/root"
"""Where our own launcher builds the inside if there is a stage."""


def scratch(number: int) -> str:
    """The path of the n-th noexec tmpfs."""
    return f"{BASE}/scratch{number}"


def mounted(number: int) -> str:
    """The path of the n-th mount of a spec."""
    return f"{BASE}/mount{number}"


def prepare(trees: list[tuple[str, str, int, bool]], scratches: list[tuple[int, int]]) -> None:
    """Build the stage in the current, already private mount namespace.

    `trees` are the mapped trees: path, target, a descriptor of the user namespace whose mapping
    applies or -1 for none, and whether it is noexec. `scratches` are (bytes, mode) of the noexec tmpfs to
    create next to them.
    """
    from coilclaw.sandbox import syscalls  # ctypes is slow to import, and most boxes need no stage

    syscalls.make_mounts_private()
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV
    lent: list[tuple[int, str, bool]] = []
    try:
        for path, at, userns, noexec in trees:  # all of them before our tmpfs is mounted: it may cover one
            attributes = syscalls.ATTR_NOSUID | syscalls.ATTR_NODEV | (syscalls.ATTR_NOEXEC if noexec else 0)
            # An id mapping applies to one file system at a time, so nested mounts are not included.
            recursive = userns < 0
            tree = syscalls.clone_tree(path, recursive=recursive)
            lent.append((tree, at, os.path.isdir(path)))
            attributes |= syscalls.ATTR_IDMAP if userns >= 0 else 0
            syscalls.set_tree(tree, attributes, userns=userns, recursive=recursive)
        syscalls.mount("tmpfs", BASE, flags, "size=64k,mode=0755")
        os.mkdir(ROOT, 0o755)
        for tree, at, directory in lent:
            _attach(tree, at, directory=directory)
    finally:
        for tree, _, _ in lent:
            os.close(tree)
    for number, (size, mode) in enumerate(scratches):
        os.mkdir(scratch(number), 0o755)
        options = f"size={size},mode={mode:o}"
        syscalls.mount("tmpfs", scratch(number), flags | syscalls.MS_NOEXEC, options)


def _attach(tree: int, at: str, *, directory: bool) -> None:
    from coilclaw.sandbox import syscalls

    if directory:
        os.mkdir(at, 0o755)
    else:
        os.close(os.open(at, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o444))
    onto = os.open(at, os.O_PATH | os.O_CLOEXEC)
    try:
        syscalls.attach_tree(tree, onto)
    finally:
        os.close(onto)
