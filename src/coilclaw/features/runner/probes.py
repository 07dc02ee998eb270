"""What the doctor looks at: whether each installed coding program does as its hook says."""

import asyncio
from typing import TYPE_CHECKING

from coilclaw.packets.box import Probe
from coilclaw.packets.errors import CoilclawError

if TYPE_CHECKING:
    from coilclaw.features.runner.adapters.contract import Adapter
    from coilclaw.runtime.runtime import Runtime


def runner_probes(app: "Runtime", *, prove: bool) -> list[Probe]:
    """A probe for each coding program that sessions can run; with `prove` it is proved again. Blocking."""
    from coilclaw.features.runner.adapters.known import CLIS, adapter_of
    from coilclaw.features.runner.adapters.versions import Versions

    versions = Versions(app)
    found = (adapter_of(name) for name in CLIS)
    return [_probe(app, each, prove=prove) for each in found if each is not None and versions.history(each)]


def _probe(app: "Runtime", adapter: "Adapter", *, prove: bool) -> Probe:
    from coilclaw.features.runner.adapters.versions import Versions

    versions = Versions(app)
    name = f"adapter {adapter.name}"
    try:
        known = versions.named(adapter, "")
        if prove and not app.estop.engaged():
            known = asyncio.run(versions.try_out(adapter, ""))
    except CoilclawError as error:
        return Probe(name=name, state="fail", detail=str(error), remedy=error.remedy)
    if known.sound:
        detail = f"{known.version}: what its hook allows runs; deny, reset and silence do not"
        return Probe(name=name, state="ok", detail=detail)
    wrong = (
        ", ".join(f"{each.manner} ({each.mode})" for each in known.proved if not each.holds) or "it was never proved"
    )
    remedy = f"Run `coilclaw adapter try {adapter.name}`, or `coilclaw adapter rollback {adapter.name}`."
    return Probe(
        name=name, state="fail", detail=f"{known.version} does not do as its hook says: {wrong}", remedy=remedy
    )
