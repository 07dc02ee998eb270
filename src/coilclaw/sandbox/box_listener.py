"""Creates the sockets a box can dial: bound inside the box's network namespace, passed out by descriptor.

Standard library only. Our own launcher calls `hand_over` from inside the box it builds. For bubblewrap's boxes this
file is a program, run as `python -I -S box_listener.py NAMESPACE CHANNEL PORT...`: it enters the namespace, passes the
sockets out and exits. The command has not started by then.
"""

import _socket
import fcntl
import os
import struct
import sys
from collections.abc import Sequence

if __name__ == "__main__":
    sys.path.append(os.path.abspath(f"{os.path.dirname(__file__)}/../.."))  # noqa: PTH100, PTH120

from coilclaw.sandbox import syscalls

HOST = "127.0.0.1"
PORT = 3128
"""The address of the broker inside a box with granted domains."""
_BACKLOG = 64
_NS_GET_USERNS = 0xB701
_IP_FREEBIND = 15
_SCM_RIGHTS = 1


def hand_over(channel: int, ports: Sequence[int]) -> None:
    """Listen in the current network namespace, and send the listening sockets through the channel, in this order."""
    listeners = [_listening(port) for port in ports]
    wire = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, os.dup(channel))
    rights = struct.pack(f"={len(listeners)}i", *(one.fileno() for one in listeners))
    wire.sendmsg([b"l"], [(_socket.SOL_SOCKET, _SCM_RIGHTS, rights)])
    wire.close()
    for one in listeners:
        one.close()


def _listening(port: int) -> _socket.socket:
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    # bubblewrap may not have brought up the loopback interface yet, and with it the address
    listener.setsockopt(_socket.IPPROTO_IP, _IP_FREEBIND, 1)
    listener.bind((HOST, port))
    listener.listen(_BACKLOG)
    return listener


def enter(namespace: int) -> None:
    """Join a network namespace: directly as root, otherwise through the user namespace that owns it."""
    try:
        syscalls.setns(namespace, syscalls.CLONE_NEWNET)
    except PermissionError:
        owner = fcntl.ioctl(namespace, _NS_GET_USERNS)
        syscalls.setns(owner, syscalls.CLONE_NEWUSER)
        syscalls.setns(namespace, syscalls.CLONE_NEWNET)


def main(namespace: int, channel: int, ports: Sequence[int]) -> None:
    """Enter, listen, pass the sockets out; a failure is reported through the channel."""
    try:
        enter(namespace)
        hand_over(channel, ports)
    except OSError as error:
        os.write(channel, f"e{error}".encode())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), [int(port) for port in sys.argv[3:]])
    os._exit(0)
