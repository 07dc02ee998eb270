# ruff: noqa: PTH123 - kernel paths and descriptors; pathlib adds nothing here
"""A way to public addresses for a box's network namespace: slirp4netns, behind a guard. Standard library only.

The guard is loaded before there is an interface and tried before the command starts; inside, nobody has the power to
change it. It rejects private, link-local, shared, reserved and multicast addresses, and those of this machine.
"""

import _socket
import contextlib
import os
import select
import signal
import time

from coilclaw.sandbox import syscalls

SLIRP = "/usr/bin/slirp4netns"
NFT = "/usr/sbin/nft"
IPV4 = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
)  # fmt: skip
PUBLIC6, IPV6 = "2000::/3", ("2001::/23", "2002::/16", "3ffe::/16")
"""Of IPv6, what is not global unicast is rejected, and within it what leads elsewhere (Teredo, 6to4)."""
TRIED = ("10.0.2.2", "169.254.169.254", "192.168.0.1", "172.16.0.1", "100.64.0.1", "224.0.0.251")
TRIED6 = ("fd00::2", "fc00::1", "fe80::2", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "ff02::fb")
"""Addresses that must be rejected, the gateways among them: without a guard, slirp4netns dials them."""
_READY_SECONDS = 10.0
_PORT = 80
_INTERFACE = "tap0"


def missing() -> str:
    """What this machine lacks for a route; empty if nothing."""
    lacking = [place for place in (SLIRP, NFT) if not os.access(place, os.X_OK)]
    return ", ".join([*lacking, *(() if os.access("/dev/net/tun", os.R_OK | os.W_OK) else ("/dev/net/tun",))])


def own_addresses() -> list[str]:
    """The addresses of this machine, but for its loopback."""
    found: set[str] = set()
    place = ""
    with open("/proc/net/fib_trie") as lines:
        for line in lines:
            words = line.split()
            if words[:1] == ["|--"]:
                place = words[1]
            elif words[:3] == ["/32", "host", "LOCAL"] and not place.startswith("127."):
                found.add(place)
    return sorted(found) + [address for address, _ in _addresses6() if address != "::1"]


def _addresses6() -> list[tuple[str, int]]:
    """The IPv6 addresses of this network namespace with their flags; none where the kernel has no IPv6."""
    with contextlib.suppress(FileNotFoundError), open("/proc/self/net/if_inet6") as lines:
        rows = [line.split() for line in lines]
        return [(_socket.inet_ntop(_socket.AF_INET6, bytes.fromhex(row[0])), int(row[4], 16)) for row in rows]
    return []


def guard(own: list[str]) -> str:
    """The rules: what leaves the namespace for one of these addresses is rejected, on its way through no interface.

    What the kernel itself asks its neighbours may pass; nobody inside can send such a packet.
    """
    four = ", ".join((*IPV4, *(each for each in own if ":" not in each)))
    six = ", ".join((*IPV6, *(each for each in own if ":" in each)))
    asked = "nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert"
    return (
        "table inet guard {\n chain out {\n  type filter hook output priority 0; policy accept;\n"
        f"  oifname lo accept\n  ip daddr {{ {four} }} reject\n  icmpv6 type {{ {asked} }} accept\n"
        f"  ip6 daddr != {PUBLIC6} reject\n  ip6 daddr {{ {six} }} reject\n }}\n}}\n"
    )


class Route:
    """Made before the namespaces are, because slirp4netns dials from this machine's network."""

    def __init__(self) -> None:
        self._own = own_addresses()
        self._six = any(":" in each and not each.startswith("fe80:") for each in self._own)
        """Whether this machine has more of IPv6 than its own links."""
        self._start, started = os.pipe()
        self._ready, ready = os.pipe()
        self._begin = started
        if os.fork() == 0:
            self._dialler(os.getppid(), ready)
        os.close(self._start)
        os.close(ready)

    def _dialler(self, namespaces: int, ready: int) -> None:
        """Become slirp4netns for the namespaces of a process, once it has them; it ends with that process."""
        syscalls.signal_on_parent_death(signal.SIGKILL)
        os.close(self._begin)
        if os.read(self._start, 1) != b"g":
            os._exit(1)
        os.set_inheritable(ready, True)
        nothing = os.open("/dev/null", os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        words = ["--configure", "--mtu=65520", "--disable-host-loopback", "--disable-dns", "--enable-seccomp"]
        words += ["--enable-ipv6"] if self._six else []
        os.execve(SLIRP, [SLIRP, *words, f"--ready-fd={ready}", str(namespaces), _INTERFACE], {})  # noqa: S606
        os._exit(1)

    def open(self) -> None:
        """In the new network namespace: load the guard, have the interface made, try the guard. OSError otherwise."""
        _nft(guard(self._own))
        if self._six:
            _be_quick()
        os.write(self._begin, b"g")
        waiting = select.poll()
        waiting.register(self._ready, select.POLLIN)
        if not waiting.poll(_READY_SECONDS * 1000) or os.read(self._ready, 1) != b"1":
            raise OSError(1, "slirp4netns did not come up")
        os.close(self._begin)
        os.close(self._ready)
        if self._six:
            _await6()
        for address in (*TRIED, *(TRIED6 if self._six else ()), *self._own):
            if (self._six or ":" not in address) and not _rejected(address):
                raise OSError(1, f"the guard of the network does not reject {address}")


def _nft(rules: str) -> None:
    """Load the rules; no shell, no environment."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(read, 0)
        os.execve(NFT, [NFT, "-f", "-"], {})  # noqa: S606 - our own rules
        os._exit(127)
    os.close(read)
    os.write(write, rules.encode())
    os.close(write)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise OSError(1, "nft could not load the guard of the network")


def _be_quick() -> None:
    """An address is usable at once: nobody else is on that link. Without this it takes a second longer."""
    with contextlib.suppress(OSError), open("/proc/sys/net/ipv6/conf/default/accept_dad", "w") as file:
        file.write("0")


def _await6() -> None:
    """Until there is an IPv6 address that can be dialled from: before that, whatever is tried fails by itself."""
    tentative, end = 0x40, time.monotonic() + _READY_SECONDS
    while not any(each.startswith("fd00:") and not flags & tentative for each, flags in _addresses6()):
        if time.monotonic() > end:
            raise OSError(1, "slirp4netns gave no IPv6 address")
        time.sleep(0.01)


def _rejected(address: str) -> bool:
    """Whether our own kernel lets no packet out to an address; whatever else goes wrong is no proof of that."""
    family: int = _socket.AF_INET6 if ":" in address else _socket.AF_INET
    place: tuple[str | int, ...] = (address, _PORT)
    if address.startswith(("fe", "ff")):
        place = (address, _PORT, 0, _socket.if_nametoindex(_INTERFACE))
    sender = _socket.socket(family, _socket.SOCK_DGRAM)
    try:
        sender.sendto(b"", place)
    except PermissionError:
        return True
    except OSError:
        return False
    finally:
        sender.close()
    return False
