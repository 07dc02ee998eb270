"""Stands in for `docker run`: builds the container that was asked for, and no better one, out of namespaces.

Whatever the command line does not ask for stays open: without `--network none` it has this machine's network, without
`--read-only` a root that can be written to. An option it does not know ends it.
"""

import argparse
import os
import sys

SYSTEM = ("usr", "bin", "lib", "lib64", "sbin", "etc")


def main(given):
    """Become the container."""
    if given[0] != "run":
        return 0  # `docker kill`: the process itself is killed as well
    known = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("name", "network", "cap-drop", "security-opt", "user", "pids-limit", "memory", "tmpfs", "volume"):
        known.add_argument(f"--{name}", default="")
    known.add_argument("--workdir", default="/")
    known.add_argument("--rm", action="store_true")
    known.add_argument("--read-only", action="store_true")
    known.add_argument("image")
    known.add_argument("command", nargs=argparse.REMAINDER)
    asked = known.parse_args(given[1:])
    box = ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--clearenv", "--die-with-parent"]
    box += ["--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/", "--proc", "/proc", "--dev", "/dev"]
    box += [part for name in SYSTEM if os.path.exists(f"/{name}") for part in ("--ro-bind", f"/{name}", f"/{name}")]
    box += ["--unshare-net"] if asked.network == "none" else []
    box += ["--cap-drop", "ALL"] if asked.cap_drop == "ALL" else []
    if asked.user:
        uid, gid = asked.user.split(":")
        box += ["--uid", uid, "--gid", gid]
    if asked.volume:
        source, target, *mode = asked.volume.split(":")
        box += ["--ro-bind" if mode == ["ro"] else "--bind", source, target]
    if asked.tmpfs:
        box += ["--tmpfs", asked.tmpfs.partition(":")[0]]
    box += ["--remount-ro", "/"] if asked.read_only else []
    return os.execvp("bwrap", [*box, "--chdir", asked.workdir, *asked.command])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
