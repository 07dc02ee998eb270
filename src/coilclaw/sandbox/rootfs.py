# ruff: noqa: PTH110, PTH112, PTH120 - kernel paths and descriptors; pathlib adds nothing here
"""Executes the steps of a layout with mounts and makes the result the root. Standard library only.

Targets are opened from the new root without following links, and mounted by descriptor, so nothing
that changes in the workspace meanwhile can redirect a mount.
"""

import contextlib
import os
from typing import Any

from coilclaw.sandbox import syscalls

_FLAGS = syscalls.MS_NOSUID | syscalls.MS_NODEV
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = (("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"), ("stdout", "/proc/self/fd/1"),
          ("stderr", "/proc/self/fd/2"), ("ptmx", "pts/ptmx"))  # fmt: skip

Step = dict[str, Any]
"""A layout.Step as received through the pipe."""


def build(steps: list[Step], base: str, console: str = "") -> None:
    """Build at `base`, then make it the root of this mount namespace and detach the old one.

    `console` is the terminal that is /dev/console inside.
    """
    syscalls.make_mounts_private()
    syscalls.mount("tmpfs", base, _FLAGS, "size=4m,mode=0755")
    root = os.open(base, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for step in steps:
            _BUILDERS[step["kind"]](root, step)
            if console and step["kind"] == "dev":
                _device(root, f"{_relative(step)}/console", console)
    finally:
        os.close(root)
    os.chdir(base)
    syscalls.pivot_root(".", ".")
    syscalls.unmount(".")
    os.chdir("/")


def _relative(step: Step) -> str:
    return str(step["at"]).strip("/") or "."


def _place(root: int, path: str, *, directory: bool) -> int:
    """Open a step's target, creating what is missing on our own tmpfs."""
    with contextlib.suppress(FileNotFoundError):
        return syscalls.open_beneath(root, path)
    _directories(root, os.path.dirname(path))
    if directory:
        os.mkdir(path, 0o755, dir_fd=root)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o444, dir_fd=root))
    return syscalls.open_beneath(root, path)


def _directories(root: int, path: str) -> None:
    made = ""
    for part in path.split("/"):
        made = f"{made}/{part}" if made else part
        if made:
            with contextlib.suppress(FileExistsError):
                os.mkdir(made, 0o755, dir_fd=root)


def _attach(root: int, path: str, tree: int, attributes: int, *, directory: bool) -> None:
    try:
        syscalls.set_tree(tree, attributes)
        onto = _place(root, path, directory=directory)
        try:
            syscalls.attach_tree(tree, onto)
        finally:
            os.close(onto)
    finally:
        os.close(tree)


def _attributes(step: Step) -> int:
    attributes = syscalls.ATTR_NOSUID | syscalls.ATTR_NODEV
    attributes |= 0 if step["writable"] else syscalls.ATTR_RDONLY
    return attributes | (syscalls.ATTR_NOEXEC if step["noexec"] else 0)


def _bind(root: int, step: Step) -> None:
    source = step["source"]
    _attach(root, _relative(step), syscalls.clone_tree(source), _attributes(step), directory=os.path.isdir(source))


def _again(root: int, step: Step) -> None:
    here = syscalls.open_beneath(root, _relative(step))
    try:
        tree = syscalls.clone_tree("", fd=here)
    finally:
        os.close(here)
    _attach(root, _relative(step), tree, _attributes(step), directory=True)


def _null(root: int, step: Step) -> None:
    attributes = syscalls.ATTR_RDONLY | syscalls.ATTR_NOSUID | syscalls.ATTR_NODEV | syscalls.ATTR_NOEXEC
    _attach(root, _relative(step), syscalls.clone_tree("/dev/null"), attributes, directory=False)


def _fresh(root: int, path: str, kind: str, flags: int, options: str) -> None:
    """Mount a new file system on an opened target, by descriptor, so that no link is followed."""
    place = _place(root, path, directory=True)
    try:
        syscalls.mount(kind, f"/proc/self/fd/{place}", flags, options)
    finally:
        os.close(place)


def _tmpfs(root: int, step: Step) -> None:
    flags = _FLAGS | (syscalls.MS_NOEXEC if step["noexec"] else 0)
    _fresh(root, _relative(step), "tmpfs", flags, f"size={step['size']},mode={step['mode']:o}")


def _seal(root: int, step: Step) -> None:
    here = syscalls.open_beneath(root, _relative(step))
    try:
        syscalls.set_tree(here, syscalls.ATTR_RDONLY, recursive=False)
    finally:
        os.close(here)


def _symlink(root: int, step: Step) -> None:
    _directories(root, os.path.dirname(_relative(step)))
    os.symlink(step["source"], _relative(step), dir_fd=root)


def _file(root: int, step: Step) -> None:
    path = _relative(step)
    _directories(root, os.path.dirname(path))
    made = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, step["mode"], dir_fd=root)
    try:
        os.write(made, step["text"].encode())
    finally:
        os.close(made)


def _dir(root: int, step: Step) -> None:
    _directories(root, os.path.dirname(_relative(step)))
    os.mkdir(_relative(step), step["mode"], dir_fd=root)


def _proc(root: int, step: Step) -> None:
    path = _relative(step)
    _fresh(root, path, "proc", _FLAGS | syscalls.MS_NOEXEC, "")
    if step["writable"]:
        return
    here = syscalls.open_beneath(root, f"{path}/sys")
    try:
        tree = syscalls.clone_tree("", fd=here)
    finally:
        os.close(here)
    _attach(root, f"{path}/sys", tree, syscalls.ATTR_RDONLY, directory=True)


def _dev(root: int, step: Step) -> None:
    path = _relative(step)
    _fresh(root, path, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NOEXEC, "size=64k,mode=0755")
    for name in _DEVICES:
        if os.path.exists(f"/dev/{name}"):
            _device(root, f"{path}/{name}", f"/dev/{name}")
    for name, target in _LINKS:
        os.symlink(target, f"{path}/{name}", dir_fd=root)
    options = "newinstance,ptmxmode=0666,mode=620"
    _fresh(root, f"{path}/pts", "devpts", syscalls.MS_NOSUID | syscalls.MS_NOEXEC, options)


def _device(root: int, path: str, source: str) -> None:
    attributes = syscalls.ATTR_NOSUID | syscalls.ATTR_NOEXEC
    _attach(root, path, syscalls.clone_tree(source), attributes, directory=False)


_BUILDERS = {
    "bind": _bind, "again": _again, "tmpfs": _tmpfs, "null": _null, "symlink": _symlink, "file": _file,
    "dir": _dir, "proc": _proc, "dev": _dev, "seal": _seal,
}  # fmt: skip
