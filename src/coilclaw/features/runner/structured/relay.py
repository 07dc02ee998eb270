"""Stands between a coding program and whoever talks to it. Standard library alone: it runs in a box, on its terminal.

`relay.py PROGRAM ARGUMENTS…` starts the program with pipes. Its lines go to a port of the box, and what comes from
there goes to the program or to the terminal. Nothing is decided here. All lines are kept, with which of them were
answered: a server that comes later hears them again and goes on where the one before ended.

A frame is a length (4 bytes), a kind (1 byte) and its content. From here: `H` what was answered so far, `L` a line, `T`
a line that was typed at the terminal, `X` the program has ended. To here: `M` lines for the program, `S` words for the
terminal, `A` a line was dealt with, `E` the end.
"""

import json
import os
import signal
import socket
import struct
import sys
import threading
import time

HOST, PORT = "127.0.0.1", 3131
LARGEST_LINE = 16 << 20
KEPT_BYTES = 64 << 20
"""So much is kept to be heard again; a program that said more cannot go on with another server."""
STDERR_BYTES = 2000
MOST_NOTES = 100
HEAD = struct.Struct(">IB")


class Relay:
    """One program."""

    def __init__(self, argv: list[str]) -> None:
        self.lines: list[bytes] = []
        self.size = 0
        self.forgot = False
        self.typed: list[bytes] = []
        self.passed_on = 0
        """How many of the typed lines the program was given."""
        self.answered: dict[str, bool] = {}
        self.shown = 0
        self.stderr = b""
        self.ended: dict[str, object] | None = None
        self.moved = threading.Condition()
        to_it, self.stdin = os.pipe()
        self.stdout, from_it = os.pipe()
        self.errors, errors = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()  # the terminal is ours: it has pipes
                for number, descriptor in enumerate((to_it, from_it, errors)):
                    os.dup2(descriptor, number)
                os.closerange(3, 1024)
                os.execvp(argv[0], argv)
            finally:
                os._exit(127)
        for descriptor in (to_it, from_it, errors):
            os.close(descriptor)

    def start(self) -> None:
        """Read everything, each beside the others."""
        for each in (self.read_lines, self.read_errors, self.read_keys):
            threading.Thread(target=each, daemon=True).start()

    def read_lines(self) -> None:
        """What the program says, to its end."""
        with os.fdopen(self.stdout, "rb") as stream:
            while line := stream.readline(LARGEST_LINE + 1):
                if len(line) > LARGEST_LINE:
                    os.killpg(self.pid, signal.SIGKILL)
                    break
                with self.moved:
                    self.lines.append(line.rstrip(b"\n"))
                    self.size += len(line)
                    self.moved.notify()
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        with self.moved:
            self.ended = {"status": status, "stderr": self.stderr.decode("utf-8", "replace")}
            self.moved.notify()

    def read_errors(self) -> None:
        """The end of its standard error."""
        while piece := os.read(self.errors, 65536):
            self.stderr = (self.stderr + piece)[-STDERR_BYTES:]

    def read_keys(self) -> None:
        """Lines that are typed at the terminal: notes for the program."""
        while line := sys.stdin.buffer.readline(65536):
            with self.moved:
                if line.strip() and len(self.typed) - self.passed_on < MOST_NOTES:
                    self.typed.append(line.strip())
                    self.moved.notify()

    def talk(self, wire: socket.socket) -> None:
        """Until the other end is gone."""
        gone = threading.Event()
        threading.Thread(target=self.listen, args=(wire, gone), daemon=True).start()
        hello = {"answered": self.answered, "shown": self.shown, "forgot": self.forgot}
        send(wire, b"H", json.dumps(hello).encode())
        told, typed, over = 0, self.passed_on, False
        while not gone.is_set():
            with self.moved:
                if told == len(self.lines) and typed == len(self.typed) and (over or self.ended is None):
                    self.moved.wait(1.0)
                    continue
                lines, said, ended = self.lines[told:], self.typed[typed:], self.ended
                told, typed = len(self.lines), len(self.typed)
                self.forget()
            for line in lines:
                send(wire, b"L", line)
            for line in said:
                send(wire, b"T", line)
            if ended is not None and not over and told == len(self.lines):
                over = True
                send(wire, b"X", json.dumps(ended).encode())

    def forget(self) -> None:
        """Keep the number of lines, but no longer what they said."""
        if self.size > KEPT_BYTES:
            self.forgot, self.size = True, 0
            self.lines = [b""] * len(self.lines)

    def listen(self, wire: socket.socket, gone: threading.Event) -> None:
        """What comes from the other end."""
        try:
            while True:
                length, kind = HEAD.unpack(exactly(wire, HEAD.size))
                self.hear(chr(kind), json.loads(exactly(wire, length)))
        except (OSError, ValueError, EOFError):
            gone.set()
            with self.moved:
                self.moved.notify()

    def hear(self, kind: str, said: "dict[str, object]") -> None:
        """One frame."""
        about = str(said.get("about", ""))
        if kind == "M":
            with self.moved:
                self.answered[about] = said.get("yes") is True
                self.passed_on += said.get("note") is True
            try:
                write(self.stdin, str(said["line"]).encode())
            except OSError:
                return  # it has ended, which is told
        elif kind == "S":
            write(1, f"{said['text']}\n".encode())
        elif kind == "A":
            self.shown = max(self.shown, int(about) + 1)
        elif kind == "E":
            self.end(int(str(said["status"])))

    def end(self, status: int) -> None:
        """It is done: nothing of it is left."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except OSError:
            pass
        os._exit(status)


def write(descriptor: int, data: bytes) -> None:
    """All of it."""
    while data:
        data = data[os.write(descriptor, data) :]


def send(wire: socket.socket, kind: bytes, content: bytes) -> None:
    """One frame; a lost connection is noticed by the listener."""
    try:
        wire.sendall(HEAD.pack(len(content), kind[0]) + content)
    except OSError:
        try:
            wire.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def exactly(wire: socket.socket, size: int) -> bytes:
    """So many bytes."""
    data = b""
    while len(data) < size:
        piece = wire.recv(min(size - len(data), 1 << 20))
        if not piece:
            raise EOFError
        data += piece
    return data


def main() -> None:
    """Start the program, and connect again whenever the other end is gone."""
    relay = Relay(sys.argv[1:])
    relay.start()
    while True:
        try:
            with socket.create_connection((HOST, PORT)) as wire:
                relay.talk(wire)
        except OSError:
            pass
        time.sleep(0.2)


if __name__ == "__main__":
    main()
