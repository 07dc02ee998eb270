"""Asks for leave before a coding program acts. Standard library alone: it runs in a box, as `hook.py PROGRAM SECONDS`.

Programs go on when a hook fails, takes too long or says nonsense; only exit 2 stops all of them. So everything but an
explicit yes ends with 2: an error, a signal, silence, an answer that cannot be read.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    import socket as _socket
else:  # `signal` and `socket` take longer to load than all the rest, and a program waits for this before each act
    import _signal
    import _socket

HOST, PORT = "127.0.0.1", 3129
LARGEST_QUESTION = 1 << 20
LARGEST_ANSWER = 64 << 10
YES = b'{"allow":true,"reason":""}'
"""The answer that needs no reading."""
SILENCE_SECONDS = 20.0
"""Whoever thinks about an answer says so every few seconds."""


def ask(program: str, seconds: float, question: bytes) -> tuple[bool, str]:
    """The answer of the desk, and its words."""
    import time

    if len(question) > LARGEST_QUESTION:
        return False, "It is too much to be looked at. Do it in smaller steps."
    until = time.monotonic() + seconds
    answer = b""
    wire = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    wire.settimeout(SILENCE_SECONDS)
    wire.connect((HOST, PORT))
    wire.sendall(b"POST /%s HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % (program.encode(), len(question)) + question)
    while True:
        left = until - time.monotonic()
        if left <= 0:
            return False, "Nobody answered in time."
        wire.settimeout(min(left, SILENCE_SECONDS))
        piece = wire.recv(4096)
        if not piece:
            break
        answer += piece
        if len(answer) > LARGEST_ANSWER:
            return False, "The answer is too long."
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.0 200 "):
        return False, "The answer cannot be read."
    if body.strip() == YES:
        return True, ""
    import json

    said = json.loads(body)
    return said["allow"] is True, str(said.get("reason", ""))


def _refuse(number: int, frame: object) -> None:
    del number, frame
    os._exit(2)


def main() -> int:
    """0 for a yes, 2 for everything else."""
    for number in (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGPIPE, _signal.SIGALRM):
        _signal.signal(number, _refuse)
    try:
        allowed, words = ask(sys.argv[1], float(sys.argv[2]), sys.stdin.buffer.read(LARGEST_QUESTION + 1))
    except BaseException as error:
        allowed, words = False, f"Nobody could be asked ({type(error).__name__}), so this is not allowed."
    if allowed:
        return 0
    try:
        sys.stderr.write(f"{words or 'This is not allowed.'}\n")
        sys.stderr.flush()
    except BaseException:  # noqa: S110 - the exit status is what counts
        pass
    return 2


if __name__ == "__main__":
    os._exit(main())
