# ruff: noqa: PTH110 - kernel paths and descriptors; pathlib adds nothing here
"""Tests the broker by its behaviour: a box with a granted domain must find it, be refused by it, reach nothing else."""

import os
import socket

from coilclaw.packets.box import BoxLimits, BoxResult, BoxSpec, Probe
from coilclaw.packets.errors import CoilclawError
from coilclaw.packets.ports import Box
from coilclaw.sandbox.box_listener import HOST, PORT
from coilclaw.sandbox.probes import in_own_loop, probe_directory

PYTHON = "/usr/bin/python3"
GRANTED = "granted.example"
"""Never looked up: the probe's own resolver maps it to this machine, which a granted name must never reach."""
OTHER = "other.example"

_ASK = r"""
import os, socket, sys
here, broker, granted, other = sys.argv[1:]
def dial(port):
    return socket.create_connection(("127.0.0.1", int(port)), 5)
def asked(name):
    with dial(broker) as made:
        made.sendall(b"CONNECT %s:443 HTTP/1.1\r\n\r\n" % name.encode())
        answer = b""
        while piece := made.recv(4096):
            answer += piece
    return answer.partition(b" ")[2][:3].decode()
def tried(name, act):
    try:
        print(name, act())
    except OSError as error:
        print(name, "refused")
tried("direct", lambda: dial(here).close() or "REACHED")
tried("elsewhere", lambda: socket.create_connection(("192.0.2.1", 443), 2).close() or "REACHED")
tried("other", lambda: asked(other))
tried("granted", lambda: asked(granted))
print("proxy", os.environ.get("HTTPS_PROXY", ""))
"""

_EXPECTED = {
    "direct": "refused",
    "elsewhere": "refused",
    "other": "403",
    "granted": "403",
    "proxy": f"http://{HOST}:{PORT}",
}
_FAULTS = {
    "direct": "this machine was reached past the broker",
    "elsewhere": "another network was reached past the broker",
    "other": "a domain that was not granted was not refused",
    "granted": "a granted domain that leads to this machine was not refused",
    "proxy": "programs inside do not find the broker",
}


def probe_broker(box: Box) -> Probe:
    """One line for the doctor. All its requests stay on this machine, and nothing is looked up."""
    if not os.path.exists(PYTHON):
        return Probe(name="broker", state="info", detail=f"not tried: no {PYTHON} inside")
    asked: list[str] = []
    try:
        with probe_directory() as workspace, socket.create_server((HOST, 0)) as listener:
            listener.setblocking(False)
            port = int(listener.getsockname()[1])
            result = in_own_loop(lambda: _reaching(box, asked).run(_spec(workspace, port)))
            return judged(result, names=tuple(asked), reached=_somebody_came(listener))
    except CoilclawError as error:
        detail = f"no box with a domain can be made, so such commands are refused: {error.message}"
        return Probe(name="broker", state="warn", detail=detail, remedy=error.remedy)
    except OSError as error:
        detail = f"not tried: nothing can listen on {HOST}: {error.strerror}"
        return Probe(name="broker", state="info", detail=detail)


def judged(result: BoxResult, *, names: tuple[str, ...], reached: bool) -> Probe:
    """Interpret the results from inside; `names` were looked up, `reached` means that our own listener was dialled."""
    lines = result.stdout.decode(errors="replace").splitlines()
    seen = dict(line.split(" ", 1) for line in lines if " " in line)
    faults = [_FAULTS[name] for name, right in _EXPECTED.items() if seen.get(name) != right]
    if reached and _FAULTS["direct"] not in faults:
        faults.append(_FAULTS["direct"])
    if set(names) - {GRANTED}:
        faults.append("a name was looked up that was not granted")
    if result.end != "exited" or result.exit_code or faults:
        why = "; ".join(faults) if seen else f"the probe {result.end} with {result.exit_code} {result.reason}".strip()
        remedy = "Approve no command that asks for domains until this is ok, and report it as a bug."
        return Probe(name="broker", state="fail", detail=why, remedy=remedy)
    detail = "a box with a granted domain reached only the broker, which refused other names and this machine"
    return Probe(name="broker", state="ok", detail=detail)


def _reaching(box: Box, asked: list[str]) -> Box:
    from coilclaw.airlock import Airlock, Listing
    from coilclaw.packets.ids import utc_now
    from coilclaw.sandbox.box import reaching

    async def this_machine(name: str) -> list[str]:
        asked.append(name)
        return [HOST]

    listing = Listing.build(allowed_domains=[GRANTED, OTHER])
    return reaching(box, Airlock(listing, log=lambda _: None, clock=utc_now, resolve=this_machine))


def _spec(workspace: str, port: int) -> BoxSpec:
    return BoxSpec(
        command=(PYTHON, "-I", "-c", _ASK, str(port), str(PORT), GRANTED, OTHER), workspace=workspace, cwd=workspace,
        workspace_writable=False, domains=(GRANTED,), limits=BoxLimits(wall_seconds=20.0),
    )  # fmt: skip


def _somebody_came(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True
