# ruff: noqa: PTH100, PTH115, PTH116, PTH120 - kernel paths and descriptors; pathlib adds nothing here
"""The small program between us and a boxed command if bubblewrap is insufficient or missing.

Run as `python -I -S launcher.py MODE FD`; the order is read from FD. Standard library only, one thread, no project
import beyond the stdlib-only modules of this room, and none after the start: the files may be readable by root alone.
Every failure before the command starts is reported and final.

    walls   namespaces, mounts, Landlock, seccomp (tier B); or Podman's container within the first two (tier C)
    plain   no namespaces: only Landlock and seccomp, or nothing at all (tier unsafe)
    stage   a noexec workspace in our own user namespace, then bubblewrap (tier A, ordinary user)
    hold    a new user namespace, kept until our standard input ends (for an id mapping)
"""

import _socket
import fcntl
import marshal
import os
import signal
import struct
import sys
from typing import Any, NoReturn

if __name__ == "__main__":
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from coilclaw.sandbox import box_listener, landlock, mount_namespace, podman, rootfs, route, syscalls
from coilclaw.sandbox.process_tree import descendants

Order = dict[str, Any]
SETUP_FAILED = 125


def main(mode: str, descriptor: int) -> NoReturn:
    """Execute one order; never returns."""
    syscalls.signal_on_parent_death(signal.SIGTERM if mode == "plain" else signal.SIGKILL)
    if mode == "hold":
        _hold()
    with os.fdopen(descriptor, "rb") as pipe:
        order: Order = marshal.loads(pipe.read())  # noqa: S302 - our own parent wrote it
    try:
        if os.getppid() != order["parent"]:
            raise OSError(3, "the process that requested this box is gone")  # noqa: TRY301
        {"walls": _walls, "plain": _plain, "stage": _stage}[mode](order)
    except Exception as error:  # in either process: nothing may run after a failed step
        _fail(order, f"{type(error).__name__}: {error}")
    _fail(order, "the launcher ended without a command")


def _report(order: Order, text: str) -> None:
    os.write(order["status"], text.encode() + b"\n")


def _fail(order: Order, why: str) -> NoReturn:
    escaped = why.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    _report(order, f'{{"error": "{escaped}"}}')
    os._exit(SETUP_FAILED)


def _hold() -> NoReturn:
    syscalls.unshare(syscalls.CLONE_NEWUSER)
    os.write(1, b"ready")
    os.read(0, 1)
    os._exit(0)


def _become(order: Order) -> None:
    """Give up root permanently before anything else."""
    if order["uid"] < 0:
        return
    os.setgroups([])
    os.setresgid(order["gid"], order["gid"], order["gid"])
    os.setresuid(order["uid"], order["uid"], order["uid"])
    syscalls.set_dumpable(dumpable=True)  # or our own uid_map would belong to root
    syscalls.signal_on_parent_death(signal.SIGKILL)  # forgotten by the kernel when the uid changed
    if os.getppid() != order["parent"]:
        raise OSError(3, "the process that requested this box is gone")


def _write(path: str, text: str) -> None:
    target = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(target, text.encode())
    finally:
        os.close(target)


def _own_user_namespace(others: int, inside_id: int | None) -> None:
    uid, gid = os.getuid(), os.getgid()
    syscalls.unshare(syscalls.CLONE_NEWUSER | others)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid if inside_id is None else inside_id} {uid} 1")
    _write("/proc/self/gid_map", f"{gid if inside_id is None else inside_id} {gid} 1")


def _walls(order: Order) -> NoReturn:
    os.set_inheritable(order["status"], False)  # the command must not write reports
    _become(order)
    os.chdir("/")
    way = route.Route() if order["routed"] else None
    _own_user_namespace(syscalls.CLONE_NEWNET, order["inside_id"])
    if way is not None:
        _loopback_up()
        way.open()
    syscalls.unshare(syscalls.CLONE_NEWPID | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWCGROUP)
    first = os.fork()
    if first == 0:
        _first_process(order)
    _close_all_but(order["status"])
    _, status = os.waitpid(first, 0)
    _report(order, f'{{"exit-code": {_code(status)}}}')
    os._exit(_code(status))


def _first_process(order: Order) -> NoReturn:
    """Process 1 of the box: builds the inside, drops all privileges, starts the command, reaps the dead."""
    syscalls.signal_on_parent_death(signal.SIGKILL)
    syscalls.unshare(syscalls.CLONE_NEWNS)
    names = ("ipc", "mnt", "net", "pid", "uts")
    namespaces = "".join(f', "{name}-namespace": {os.stat(f"/proc/self/ns/{name}").st_ino}' for name in names)
    # /proc is still the machine's, so this is our outer pid; in here it is 1
    _report(order, f'{{"child-pid": {os.readlink("/proc/self")}{namespaces}}}')
    rootfs.build(order["steps"], order["base"], os.ttyname(0) if order["terminal"] else "")
    syscalls.set_hostname("box")
    _loopback_up()
    if order["listener"] >= 0:
        box_listener.hand_over(order["listener"], order["ports"])
        os.close(order["listener"])
    if not order["podman"]:
        _give_up_powers(order)
    syscalls.set_dumpable(dumpable=False)  # the command has our uid, but must not inspect us
    if not order["terminal"]:
        os.setsid()
    if os.read(order["gate"], 1) != b"g":
        raise OSError(3, "the box was never released")
    if not order["podman"]:
        syscalls.load_filter(order["filter"])
    child = os.fork()
    if child == 0:
        if order["podman"]:
            podman.execute(order)
        if order["terminal"]:
            _take_terminal()
        _execute(order)
    _close_all_but()
    # Podman ends after its container, in which all of the command's processes are; its own may take a moment longer.
    os._exit(_bury_all(child, wait=not order["terminal"] and not order["podman"]))


def _give_up_powers(order: Order) -> None:
    """Podman needs them to build the container, and gives the command none."""
    syscalls.drop_capabilities()
    syscalls.no_new_privileges()
    known = landlock.version()
    if known:
        rights = landlock.writes(known)
        landlock.restrict([(path, rights) for path in order["writable"]], handled=rights, network=False)


def _take_terminal() -> None:
    """Make the terminal the command's: its name inside, and its keys for the command's group, which we are not in."""
    terminal = os.open("/dev/console", os.O_RDWR | os.O_NOCTTY)
    for stream in (0, 1, 2):
        os.dup2(terminal, stream)
    os.close(terminal)
    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    os.tcsetpgrp(0, os.getpid())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTTOU})


def _bury_all(command: int, *, wait: bool = True) -> int:
    """Reap all processes, orphans too, until none is left; returns how the command ended.

    Without `wait` the command's end is the end: this process exits, and the kernel kills what is left.
    """
    code = SETUP_FAILED
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            return code
        if pid == command:
            code = _code(status)
            if not wait:
                return code


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _execute(order: Order) -> NoReturn:
    """Exec the command; an unknown name ends as in a shell."""
    try:
        os.chdir(order["cwd"])
    except OSError as error:
        _fail(order, f"chdir to {order['cwd']}: {error.strerror}")
    argv: list[str] = order["argv"]
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these signals; a command must not inherit that
        signal.signal(number, signal.SIG_DFL)
    os.closerange(3, order["status"])
    os.closerange(order["status"] + 1, 1024)
    try:
        os.execvpe(argv[0], argv, order["environment"])  # noqa: S606 - this is the box
    except FileNotFoundError:
        os.write(2, f"{argv[0]}: not found\n".encode())
        os._exit(127)
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        os._exit(126)


def _close_all_but(*kept: int) -> None:
    """Close the command's streams here, so that they end when the command does."""
    nothing = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    for descriptor in range(3, 1024):
        if descriptor not in kept:
            try:
                os.close(descriptor)
            except OSError:
                continue


def _loopback_up() -> None:
    up_and_running = 0x41
    control = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    fcntl.ioctl(control.fileno(), 0x8914, struct.pack("16sh22x", b"lo", up_and_running))  # SIOCSIFFLAGS
    control.close()


def _stage(order: Order) -> NoReturn:
    _own_user_namespace(syscalls.CLONE_NEWNS, None)
    mount_namespace.prepare(order["trees"], order["scratches"])
    os.execve(order["argv"][0], order["argv"], dict(os.environ))  # noqa: S606 - bubblewrap; ours holds only its mark


def _plain(order: Order) -> NoReturn:
    """Without a pid namespace we reap the dead and kill the living ourselves."""
    os.set_inheritable(order["status"], False)  # the command must not write reports
    syscalls.become_subreaper()

    def stop(_number: int, _frame: object) -> NoReturn:
        _sweep()
        os._exit(128 + signal.SIGKILL)

    signal.signal(signal.SIGTERM, stop)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _plain_command(order)
    _report(order, f'{{"child-pid": {child}}}')
    _close_all_but(order["status"])
    code = _bury_all(child)
    _report(order, f'{{"exit-code": {code}}}')
    os._exit(code)


def _plain_command(order: Order) -> NoReturn:
    os.setsid()
    syscalls.signal_on_parent_death(signal.SIGKILL)
    syscalls.no_new_privileges()
    if order["rules"]:
        everything = (1 << 16) - 1
        landlock.restrict([tuple(rule) for rule in order["rules"]], handled=everything, network=True)
    if os.read(order["gate"], 1) != b"g":
        raise OSError(3, "the box was never released")
    if order["filter"]:
        syscalls.load_filter(order["filter"])
    _execute(order)


def _sweep() -> None:
    """Kill every descendant, however detached: as the subreaper we inherit orphans."""
    while True:
        for pid in descendants(os.getpid()):
            for number in (signal.SIGSTOP, signal.SIGKILL):
                try:
                    os.kill(pid, number)
                except OSError:
                    break
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
