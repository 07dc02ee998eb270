"""The executable, forked from a process that has imported it already: a fifth of the time that a fresh start takes.
So is a script that imports its modules (`[*SCRIPT, TEXT, …]`).

What is about starting up, or sets a variable that an interpreter reads then, starts `COILCLAW` itself; with
`TESTS_FORK=no` everything does. The streams, the session and the exit are those of a fresh process; so is the zombie
that stays until somebody waits for it.
"""

import atexit
import fcntl
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

COILCLAW = str(Path(sys.executable).with_name("coilclaw"))
SCRIPT = (sys.executable, "-c")
READ_AT_START = ("PYTHON", "LC_", "LANG", "MALLOC", "LD_", "COILCLAW_DEBUG")
PROGRAMS = ("fake_", "__main__", "launcher", "nursery", "box_listener", "search_program", "watcher", "migrations")
"""Modules that are programs of their own, or for tests."""
LATER = (
    "concurrent.futures.thread", "cryptography.hazmat.primitives.asymmetric.ed25519", "prompt_toolkit",
    "selectolax.lexbor", "tomlkit", "tree_sitter_bash", "webauthn", "zoneinfo", "tests.home",
)  # fmt: skip
"""What commands import when they come to it, and most do; and the tests' own scripts."""


def usual(env: Mapping[str, str]) -> bool:
    """Whether a fresh interpreter would be like the one that is forked."""
    odd = [name for name in env if name.startswith(READ_AT_START) and (name, env[name]) != ("LANG", "C.UTF-8")]
    return not odd and os.environ.get("TESTS_FORK") != "no"


def start(command: Sequence[str | bytes], **options: Any) -> "subprocess.Popen[Any]":
    """Start a command as `subprocess.Popen` does; `env` has to be given, `terminal` makes stdin its own terminal."""
    terminal = options.pop("terminal", False)
    if (
        (command[0] == COILCLAW or tuple(command[:2]) == SCRIPT)
        and usual(options["env"])
        and "preexec_fn" not in options
    ):
        return Forked(command, terminal=terminal, **options)
    if terminal:
        options["preexec_fn"] = take_terminal
    return subprocess.Popen(command, **options)


def run(
    command: Sequence[str | bytes], *, data: bytes | None = None, timeout: float, **options: Any
) -> "subprocess.CompletedProcess[Any]":
    """Run a command to its end, without a terminal, and take what it says."""
    stdin = subprocess.DEVNULL if data is None else subprocess.PIPE
    with start(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        try:
            out, err = process.communicate(data, timeout=timeout)
        except BaseException:
            process.kill()
            raise
        return subprocess.CompletedProcess(command, process.wait(), out, err)


def script(text: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a script of the tests' own from the root of the project, to its end or until it kills itself."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(READ_AT_START)}
    root = Path(__file__).parents[1]
    return run([*SCRIPT, text, *words], env={**env, "LANG": "C.UTF-8"}, cwd=root, text=True, timeout=280)


def take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Forked(subprocess.Popen[Any]):
    """A command whose process somebody else forks, and waits for when told to; all else is as always."""

    def __init__(self, command: Sequence[str | bytes], *, terminal: bool, **options: Any) -> None:
        self._terminal = terminal
        super().__init__([os.fsdecode(each) for each in command], **options)

    def _execute_child(self, args, *given):  # its arguments, in the order that all Pythons since 3.11 know
        cwd, env, session = given[4], given[5], given[-2]
        pipes = given[9:15]
        order = os.memfd_create("order")
        asked = {"args": args, "env": env, "cwd": str(cwd), "session": session, "terminal": self._terminal}
        os.write(order, json.dumps(asked).encode())
        self._report, theirs = os.pipe()
        streams = [pipe if pipe >= 0 else usual for usual, pipe in enumerate((pipes[0], pipes[3], pipes[5]))]
        socket.send_fds(wire(), [b"start"], [order, *streams, theirs])
        os.close(order)
        os.close(theirs)
        self._close_pipe_fds(*pipes)
        self._child_created = True
        self.pid = int.from_bytes(os.read(self._report, 4), "little")

    def _try_wait(self, flags):
        if not select.select([self._report], [], [], 0 if flags else None)[0]:
            return 0, 0
        status = os.read(self._report, 4)
        os.close(self._report)
        assert status, "the process that forks has ended"
        wire().send(b"reap" + self.pid.to_bytes(4, "little"))
        return self.pid, int.from_bytes(status, "little")

    def _internal_poll(self, *_, **__):
        return super()._internal_poll(_waitpid=lambda _, flags: self._try_wait(flags))


@functools.cache
def wire() -> socket.socket:
    """The way to the process that forks, which is started when the first command is; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", f"from tests.forked import serve; serve({theirs.fileno()})"],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=Path(__file__).parents[1],
            env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8"},
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


# In the process that forks


def serve(descriptor: int) -> None:
    """Fork whatever is ordered; the child returns from here as the executable."""
    preload()
    wire = socket.socket(fileno=descriptor)
    woken, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([wire, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
        if wire in ready:
            order, fds, _, _ = socket.recv_fds(wire, 64, 5)
            if not order:
                return
            if order.startswith(b"reap"):
                os.waitpid(int.from_bytes(order[4:], "little"), 0)
            elif pid := os.fork():
                running[pid] = fds[4]
                for each in fds[:4]:
                    os.close(each)
            else:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for each in (*running.values(), woken, wakes):
                    os.close(each)
                wire.close()
                become(*fds)
        for pid in list(running):
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            if ended is not None:
                report = running.pop(pid)
                exited = ended.si_code == os.CLD_EXITED
                status = ended.si_status << 8 if exited else ended.si_status
                os.write(report, status.to_bytes(4, "little"))
                os.close(report)


def preload() -> None:
    """Import what commands import, so that a fork finds it done."""
    import coilclaw

    for module in pkgutil.walk_packages(coilclaw.__path__, "coilclaw."):
        if not any(part.startswith(PROGRAMS) for part in module.name.split(".")):
            importlib.import_module(module.name)
    for name in LATER:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def become(order: int, stdin: int, stdout: int, stderr: int, report: int) -> None:
    """Be the executable, in the place and with the streams that were ordered; whoever ordered waits until it is."""
    with os.fdopen(order, "rb") as file:
        file.seek(0)
        asked = json.load(file)
    if asked["session"]:
        os.setsid()
    for target, each in enumerate((stdin, stdout, stderr)):
        os.dup2(each, target)
        os.close(each)
    if asked["terminal"]:
        take_terminal()
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    sys.argv[:] = asked["args"]
    sys.path[0] = str(Path(COILCLAW).parent)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        setattr(sys, name, _stream(name, mode))
        setattr(sys, f"__{name}__", getattr(sys, name))
    os.write(report, os.getpid().to_bytes(4, "little"))
    os.close(report)
    leave()


def leave() -> NoReturn:
    """Run the command and end as an interpreter ends, but do not take the modules apart: that would copy them."""
    from coilclaw.cli import main

    try:
        code = run_script() if tuple(sys.argv[:2]) == SCRIPT else main()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = 120
    os._exit(code)


def run_script() -> int:
    """The script that was ordered, as the main module."""
    text = sys.argv[2]
    sys.argv[:] = ["-c", *sys.argv[3:]]
    sys.path[0] = ""
    exec(compile(text, "<string>", "exec"), {"__name__": "__main__"})
    return 0


def _stream(name: str, mode: str) -> io.TextIOWrapper:
    """A stream as an interpreter opens it in the locale C.UTF-8."""
    descriptor = ("stdin", "stdout", "stderr").index(name)
    stream = open(descriptor, mode, encoding="utf-8", newline=None if mode == "r" else "\n", closefd=False)  # noqa: SIM115
    stream.reconfigure(
        errors="backslashreplace" if name == "stderr" else "surrogateescape",
        line_buffering=name == "stderr" or os.isatty(descriptor),
    )
    return stream
