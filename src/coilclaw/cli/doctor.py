"""coilclaw doctor."""

import click

from coilclaw.cli.output import json_option, print_json, print_line
from coilclaw.cli.session import opened

STYLES = {"ok": "green", "warn": "yellow", "fail": "red", "info": ""}


@click.command()
@click.option("--short", is_flag=True, help="Only the essentials, without trying every box.")
@click.option(
    "--canaries", is_flag=True, help="Also fire a canary for every guard on every path, in a throw-away home."
)
@click.option("--quiet", is_flag=True, help="Say only what is amiss, or in one line that nothing is.")
@json_option
def doctor(short: bool, canaries: bool, quiet: bool, as_json: bool) -> int:
    """Probe everything the agent relies on, by behaviour, with a remedy for each fault.

    Exit 1 when execution is disabled: something the agent cannot do without does not hold.
    """
    from coilclaw.app.checkup import examine

    with opened() as app:
        probes = examine(app, lambda: app.db.reader, short=short)
    if canaries:
        from coilclaw.cli.canaries import run_canaries

        probes += run_canaries()
    if as_json:
        print_json(probes)
    else:
        amiss = [probe for probe in probes if probe.state in ("warn", "fail")]
        if quiet and not amiss:
            print_line(f"Everything is in place: {app.home.root}, {app.workspace}")
        for probe in amiss if quiet else probes:
            remedy = f" -> {probe.remedy}" if probe.remedy and probe.state != "ok" else ""
            print_line(f"[{probe.state:4}] {probe.name}: {probe.detail}{remedy}", style=STYLES[probe.state])
    return 1 if any(probe.state == "fail" for probe in probes) else 0
