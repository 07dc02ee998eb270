# ruff: noqa: PTH103, PTH114, PTH115, PTH118, PTH123, PTH208, PTH211, S108 - kernel paths and descriptors; pathlib adds nothing here
"""Tier C: Podman's container within the namespaces of a box. Standard library only: the launcher imports it.

The launcher builds the inside of tier B, in its own user, process and network namespaces; Podman then runs a container
of exactly these mounts, in that user namespace and with that network. So it needs no subordinate uids, no service and
no store of images; the limits, the listeners and the end of a box are those of every box: what ends the first process
ends Podman, its monitor and the container. See docs/decisions/0048.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

PODMAN = ("/usr/bin/podman", "/usr/local/bin/podman")
RUNTIME = "/usr/bin/crun"
"""The one that runs containers without control groups: the box has its own."""
OWN_TASKS = 96
"""Threads of Podman, its monitor and the runtime, which the limit on processes counts too."""
_STATE = "/tmp/.home/podman"
"""In the box; the container has a /tmp of its own."""
_OWN = ("proc", "sys", "dev", "tmp")
_CONFIG = """[containers]
default_sysctls = []
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
"""
_LOADER = """
import ctypes, os, sys
held = bytes.fromhex(sys.argv[1])
class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))
wanted = Program(len(held) // 8, held)
if ctypes.CDLL(None).prctl(22, ctypes.c_ulong(2), ctypes.byref(wanted), ctypes.c_ulong(0), ctypes.c_ulong(0)):
    sys.exit("the system call filter could not be loaded")
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except FileNotFoundError:
    os.write(2, f"{sys.argv[2]}: not found\\n".encode())
    os._exit(127)
except OSError as error:
    os.write(2, f"{sys.argv[2]}: {error.strerror}\\n".encode())
    os._exit(126)
"""
"""Loads our filter over Podman's, then becomes the command."""
LOADING_PYTHON = "/usr/bin/python3"


def program() -> str:
    """Podman, if everything that tier C needs is installed; else empty."""
    podman = next((place for place in PODMAN if os.access(place, os.X_OK)), "")
    return podman if os.access(RUNTIME, os.X_OK) and os.access(LOADING_PYTHON, os.X_OK) else ""


def execute(order: Mapping[str, Any]) -> None:
    """Become Podman, which runs the order's command in a container of the current root. Returns only by an error."""
    root = os.path.join(_STATE, "root")
    os.makedirs(root)
    with open(f"{_STATE}/containers.conf", "wb") as file:
        file.write(_CONFIG.encode())
    environment = {
        **order["environment"], "HOME": _STATE, "XDG_RUNTIME_DIR": _STATE, "TMPDIR": _STATE,
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "CONTAINERS_CONF": f"{_STATE}/containers.conf",
        "_CONTAINERS_USERNS_CONFIGURED": "done", "_CONTAINERS_ROOTLESS_UID": "1", "_CONTAINERS_ROOTLESS_GID": "1",
    }  # fmt: skip
    argv = [*_engine(order["podman"]), *_container(order), *_places(root, order["mounts"])]
    loader = (LOADING_PYTHON, "-I", "-S", "-c", _LOADER, order["filter"].hex())
    os.execve(argv[0], [*argv, "--rootfs", root, *loader, *order["argv"]], environment)  # noqa: S606 - this is the box


def _engine(podman: str) -> list[str]:
    return [
        podman, "--root", f"{_STATE}/storage", "--runroot", f"{_STATE}/run", "--tmpdir", f"{_STATE}/tmp",
        "--storage-driver", "vfs", "--runtime", RUNTIME, "--log-level", "error",
    ]  # fmt: skip


def _container(order: Mapping[str, Any]) -> list[str]:
    """The walls of the container. Its network is the box's: empty, or with our listeners in it."""
    me, processes = order["user"], order["processes"]
    own = {"HOME": order["environment"]["HOME"], "PATH": order["environment"]["PATH"]}
    named = [word for name in order["environment"] if name not in own for word in ("--env", name)]
    given = [word for name, value in own.items() for word in ("--env", f"{name}={value}")]
    return [
        "run", "--rm", "--log-driver", "passthrough", "--network", "host", "--cgroups", "disabled", "--pull", "never",
        "--cap-drop", "all", "--security-opt", "no-new-privileges", "--read-only", "--read-only-tmpfs=false",
        "--tmpfs", f"/tmp:rw,nosuid,nodev,mode=1777,size={order['tmp_bytes']}", "--http-proxy=false", "--no-hosts",
        "--dns", "none", "--hostname", "box", "--passwd=false", "--uidmap", f"{me}:0:1", "--gidmap", f"{me}:0:1",
        "--user", f"{me}:{me}", "--ulimit", f"nproc={processes}:{processes}", "--env-host=false",
        "--image-volume", "ignore", "--workdir", order["cwd"], *named, *given,
    ]  # fmt: skip


def _places(root: str, mounts: Sequence[tuple[str, bool]]) -> list[str]:
    """The top of the box's root, read-only, and over it each mount as the spec has it.

    Every one by itself: the runtime applies read-only and writable to all that is mounted below.
    """
    shown: dict[str, bool] = {}
    for name in sorted(os.listdir("/")):
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{root}/{name}")
        elif name not in _OWN:
            shown[f"/{name}"] = False
    shown.update(mounts)
    volumes = (f"{at}:{at}:{'rw' if writable else 'ro'},rbind,nosuid,nodev" for at, writable in shown.items())
    return [word for volume in volumes for word in ("--volume", volume)]
