"""Kill the process at every boundary and at random, bring it back, and count what was lost or done twice.

Everything is imported once; each life is a fork of that, so thousands of kills take minutes. A life proposes, answers
and carries out actions against receivers in another process; it is killed at a named point or at a random moment; fresh
processes (some of them killed too) bring everything to rest; then what the owner was told, what the receiver counted,
and what rows, receipts, log and audit say are held against each other.
"""

import argparse
import asyncio
import gc
import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

from coilclaw.cli.commands.init import make_home, make_parts, make_workspace
from coilclaw.config import Home, load
from tests.torture import earlier, evolve, github, held, mails, pulls, questions, resumed, sessions, tamper
from tests.torture.boxes import Left, kill_boxes
from tests.torture.chamber import Cell, Chamber, Tally, Unsound, nothing
from tests.torture.large import kill_snapshots
from tests.torture.life import KINDS, POINTS, Journal, Life, Place, come_to_rest, let_expire
from tests.torture.receivers import Receivers, die_with_parent, received_file
from tests.torture.verdict import compare

VARIANTS = ("deduplicates", "lookup", "neither")
PER_HOME = 25


def make_template(base: Path) -> None:
    """A home to copy, and everything imported that a life imports."""
    home = Home(base / "home")
    make_home(home)
    config = load(home, {"HOME": str(base / "user")}).config
    make_parts(home, config)
    make_workspace(home, config.workspace_dir)


def work_off(cells: list[Cell], folder: Path, template: Path, send: Callable[[Tally], None]) -> None:
    """Run the cells of one worker, one after the other."""
    receivers = Receivers(folder)
    try:
        for number, cell in enumerate(cells):
            base = folder / f"{folder.name}-{number}"
            chamber = Chamber(cell, base, template, receivers)
            try:
                send(chamber.run())
            except Unsound as unsound:
                send(unsound.tally)
                continue  # it is kept, to look at
            except RuntimeError as error:
                chamber.wrong(str(error))
                send(chamber.tally)
                continue
            shutil.rmtree(base)
            received_file(folder, base.name).unlink(missing_ok=True)
    finally:
        receivers.close()


def torture(cells: list[Cell], folder: Path, workers: int) -> dict[tuple[str, str], Tally]:
    """Run all cells on several workers; the tallies by point and variant."""
    template = folder / "template"
    make_template(template)
    _warm(folder, template)
    gc.collect()
    gc.freeze()
    running: list[tuple[int, int]] = []
    for number in range(workers):
        (folder / f"w{number}").mkdir()
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            code = 70
            try:
                die_with_parent()
                out = os.fdopen(writing, "w", buffering=1)
                work_off(
                    cells[number::workers],
                    folder / f"w{number}",
                    template,
                    lambda tally, out=out: out.write(msgspec.json.encode(tally).decode() + "\n") and None,
                )
                out.close()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(writing)
        running.append((pid, reading))
    total = {(cell.how, cell.variant): Tally(cell.how, cell.variant) for cell in cells}
    for pid, reading in running:
        with os.fdopen(reading) as source:
            for line in source:
                tally = msgspec.json.decode(line, type=Tally)
                total[tally.how, tally.variant].add(tally)
        if os.waitpid(pid, 0)[1]:
            raise RuntimeError("a worker of the torture ended by itself")
    return total


def _warm(folder: Path, template: Path) -> None:
    """One life in this very process imports what lives import; no thread may remain when forking begins."""
    receivers = Receivers(folder)
    base = folder / "warm"
    shutil.copytree(template, base, symlinks=True)
    place = Place(base, "warm", "lookup", receivers.port)
    app, clock = place.open(nothing)
    asyncio.run(Life(app, Journal(place.journal), random.Random(1)).run([(f"warm.{kind}", kind) for kind in KINDS]))
    asyncio.run(come_to_rest(app, clock))
    asyncio.run(let_expire(app, clock))
    app.close()
    found = compare(place, received_file(folder, "warm"), over=True)
    receivers.close()
    if not found.sound:
        raise SystemExit(f"Even undisturbed it is unsound: {found}")


def plan(kills: int, at_random: int, races: int, seed: int, variants: tuple[str, ...]) -> list[Cell]:
    """Every point against every variant, then random moments, then races; as cells of a home each."""
    chance = random.Random(seed)
    wanted = [(point, variant, kills) for point in POINTS for variant in variants]
    for how, total in (("random", at_random), ("race", races)):
        shares = [total // len(variants) + (number < total % len(variants)) for number in range(len(variants))]
        wanted += [(how, variant, share) for variant, share in zip(variants, shares, strict=True)]
    cells = [
        Cell(how, variant, min(PER_HOME, number - start), chance.randrange(1 << 30))
        for how, variant, number in wanted
        for start in range(0, number, PER_HOME)
    ]
    chance.shuffle(cells)
    return cells


def tamper_with(folder: Path, flips: int, seed: int) -> bool:
    """Tamper with a real home in every way there is, and flip bits in its files; whether anything went unseen."""
    folder.mkdir()
    books = asyncio.run(tamper.build(folder / "real"))
    done = {"ways to tamper": tamper.tamper(books, folder), "flipped bits": tamper.flip(books, folder, flips, seed)}
    for what, tally in done.items():
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(tally.found.items()))
        say(
            f"{what}: {sum(tally.found.values())} found ({kinds}), {tally.harmless} changed nothing,"
            f" {tally.noted} noted as torn,"
            f" {tally.outside} outside the ledger, {len(tally.missed)} missed, {len(tally.raised)} raised"
        )
        for each in (*tally.missed, *tally.raised):
            say(f"! {each}")
    shutil.rmtree(folder)
    return any(tally.missed or tally.raised for tally in done.values())


def stop_and_upgrade(folder: Path, stops: int, seed: int, *, earlier_homes: bool) -> bool:
    """Writers that are stopped with the lock, and homes of earlier commits; whether anything went wrong."""
    folder.mkdir()
    wrong = held.stop_writers(folder, stops, seed) if stops else []
    if stops:
        say(f"writers stopped with the lock: {stops}, {len(wrong)} wrong")
    commits = earlier.known_commits() if earlier_homes else []
    for commit in commits:
        wrong += earlier.try_home(commit, folder)
    if earlier_homes:
        say(f"homes made by earlier commits: {len(commits)}" + ("" if commits else " (there is no history here)"))
    for each in wrong:
        say(f"! {each}")
    if not wrong:
        shutil.rmtree(folder)
    return bool(wrong)


def resume_turns(folder: Path, kills: int, seed: int) -> bool:
    """Turns that wait and go on, killed at each of their boundaries and raced; whether anything went wrong."""
    folder.mkdir()
    make_template(folder / "template")
    tallies = [
        resumed.kill_resumed(folder / point, folder / "template", point, kills, seed)
        for point in (*resumed.POINTS, "race")
    ]
    say(resumed.table(tallies))
    for tally in tallies:
        for said in tally.said[:10]:
            say(f"! {said}")
    wrong = any(tally.lost or tally.twice or tally.said for tally in tallies)
    if not wrong:
        shutil.rmtree(folder)
    return wrong


def merge_pulls(folder: Path, kills: int) -> bool:
    """Pull requests of jobs, killed at each of their boundaries; whether anything went wrong."""
    folder.mkdir()
    make_template(folder / "template")
    tallies: list[pulls.Pulled] = []
    for point in (*pulls.POINTS, *github.POINTS):
        kill = github.kill_between if point in github.POINTS else pulls.kill_pulls
        tallies.append(kill(folder / point, folder / "template", point, kills))
        say(f"killed at {point}: {tallies[-1].kills} times, {tallies[-1].lost} lost, {tallies[-1].twice} twice")
    say(pulls.table(tallies))
    for tally in tallies:
        for said in tally.said[:10]:
            say(f"! {said}")
    wrong = any(tally.lost or tally.twice or tally.said for tally in tallies)
    if not wrong:
        shutil.rmtree(folder)
    return wrong


def send_mails(folder: Path, kills: int) -> bool:
    """Drafts and sent mail, killed at each boundary against Google in each mood; whether anything went wrong."""
    folder.mkdir()
    make_template(folder / "template")
    cells = [(point, tool, mood) for point in mails.POINTS for tool in mails.TOOLS for mood in mails.MOODS] * kills
    tallies = [mails.kill_mail(folder / str(number), folder / "template", *cell) for number, cell in enumerate(cells)]
    say(mails.table(tallies))
    for tally in tallies:
        for said in tally.said:
            say(f"! {said}")
    wrong = any(tally.said for tally in tallies)
    if not wrong:
        shutil.rmtree(folder)
    return wrong


def kill_watcher(folder: Path, kills: int, seed: int) -> bool:
    """The watcher of the agent that works on itself, killed at each step and at random; whether anything went wrong."""
    tallies = [evolve.torture_change(folder / each, each, kills, 5 * kills, seed) for each in evolve.CHANGES]
    for tally in tallies:
        say(f"evolve, {tally.change}: {tally.steps} steps, {tally.kills} kills, {len(tally.wrong)} wrong")
        for said in tally.wrong[:10]:
            say(f"! {said}")
    return any(tally.wrong for tally in tallies)


def kill_sessions(folder: Path, kills: int, randomly: int, seed: int) -> bool:
    """Coding sessions, with their server, nursery and keepers killed; whether any went wrong."""
    folder.mkdir()
    make_template(folder / "template")
    ways = dict.fromkeys((*sessions.POINTS, *sessions.RANDOMLY), kills) | {"random": randomly}
    tallies = [
        sessions.kill_sessions(folder / how, folder / "template", how, count, seed) for how, count in ways.items()
    ]
    tallies += [
        questions.kill_questions(folder / f"q{number}", folder / "template", way, kills, seed)
        for number, way in enumerate(questions.WAYS)
    ]
    say(sessions.table(tallies))
    for tally in tallies:
        for said in tally.wrong[:10]:
            say(f"! {said}")
    wrong = any(tally.wrong for tally in tallies)
    if not wrong:
        shutil.rmtree(folder)
    return wrong


def table(total: dict[tuple[str, str], Tally]) -> str:
    """The tallies as a markdown table."""
    head = ("killed at", "receiver", "kills", "again", "actions", "effects", "lost", "duplicated", "unknown", "wrong")
    lines = [f"| {' | '.join(head)} |", f"|---|---|{'---:|' * (len(head) - 2)}"]
    whole = Tally("all", "")
    for tally in total.values():
        whole.add(tally)
    ordered = sorted(total.values(), key=lambda tally: ((*POINTS, "random", "race").index(tally.how), tally.variant))
    for tally in (*ordered, whole):
        numbers = (
            tally.kills, tally.again, tally.actions, tally.effects, tally.lost, tally.duplicated, tally.unknown,
            tally.wrong,
        )  # fmt: skip
        lines.append(f"| {tally.how} | {tally.variant} | {' | '.join(map(str, numbers))} |")
    return "\n".join(lines)


def say(text: str) -> None:
    """Print it."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Run it; 1 when anything is wrong."""
    parser = argparse.ArgumentParser(prog="scripts/torture", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50, help="kills at each point for each receiver (default 50)")
    parser.add_argument("--random", type=int, default=1000, help="kills at random moments (default 1000)")
    parser.add_argument("--races", type=int, default=100, help="times three executors race, one being killed")
    parser.add_argument("--flips", type=int, default=1000, help="bits flipped in the ledger's files (default 1000)")
    parser.add_argument("--boxes", type=int, default=100, help="kills of processes that start boxes (default 100)")
    parser.add_argument("--files", type=int, default=100_000, help="files of a workspace whose snapshots are killed")
    parser.add_argument("--stops", type=int, default=50, help="writers stopped with the lock (default 50)")
    parser.add_argument("--resumes", type=int, default=20, help="kills at each boundary of a resumed turn (default 20)")
    parser.add_argument("--pulls", type=int, default=50, help="kills at each boundary of a pull request (default 50)")
    parser.add_argument("--mails", type=int, default=5, help="kills at each boundary of a mail, by mood (default 5)")
    parser.add_argument("--evolve", type=int, default=5, help="kills at each step of the watcher (default 5)")
    parser.add_argument("--sessions", type=int, default=25, help="kills at each boundary of a session (default 25)")
    parser.add_argument("--moments", type=int, default=500, help="kills of sessions at random moments (default 500)")
    parser.add_argument("--no-earlier", action="store_true", help="make no homes with the code of earlier commits")
    parser.add_argument("--seed", type=int, help="what chance begins with; said at the end unless given")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--receivers", nargs="+", default=list(VARIANTS), choices=[*VARIANTS, "liar"])
    parser.add_argument("--folder", type=Path, help="where to do it; in memory, if that is possible, unless given")
    parser.add_argument("--json", type=Path, help="also write the tallies there")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 30)
    cells = plan(options.kills, options.random, options.races, seed, tuple(options.receivers))
    # SIGKILL takes no page cache along, so nothing is won by a real disk; memory is faster.
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="coilclaw-torture-", dir=options.folder or shared))
    boxed = Path(tempfile.mkdtemp(prefix="coilclaw-torture-", dir=options.folder))  # no box works below /dev
    began = time.monotonic()
    unsound = options.flips and tamper_with(folder / "tampered", options.flips, seed)
    unsound = stop_and_upgrade(folder / "held", options.stops, seed, earlier_homes=not options.no_earlier) or unsound
    if options.resumes:
        unsound = resume_turns(folder / "resumed", options.resumes, seed) or unsound
    if options.pulls:
        unsound = merge_pulls(folder / "pulls", options.pulls) or unsound
    if options.mails:
        unsound = send_mails(folder / "mails", options.mails) or unsound
    if options.evolve:
        unsound = kill_watcher(folder / "evolve", options.evolve, seed) or unsound
    if options.sessions:
        unsound = kill_sessions(boxed / "sessions", options.sessions, options.moments, seed) or unsound
    total = torture(cells, folder, max(1, min(options.workers, len(cells))))
    bad = bool(unsound) or any(tally.lost or tally.duplicated or tally.wrong for tally in total.values())
    left = kill_boxes(boxed / "boxes", folder / "template", options.boxes, seed) if options.boxes else Left()
    bad = bad or bool(left.boxes or left.locks or left.wrong)
    if options.files:
        kept = kill_snapshots(folder / "large", options.files, 20, seed)
        bad = bad or bool(kept.wrong)
        say(
            f"{kept.files} files, {kept.kills} kills in snapshots of them: kept in {kept.first:.1f} s after that,"
            f" again in {kept.later:.1f} s; {len(kept.wrong)} wrong"
        )
    kills = sum(tally.kills + tally.again for tally in total.values())
    say(table(total))
    say(
        f"\n{left.kills} kills around boxes: {left.executed} done, {left.never_began} never began,"
        f" {left.unknown} unknown ({left.unknown_not_run} of them before their first word);"
        f" left behind: {left.boxes} boxes, {left.locks} locks."
    )
    for said in left.wrong[:10]:
        say(f"! {said}")
    for tally in total.values():
        for said in tally.said[:10]:
            say(f"! {said}")
    verdict = "WRONG" if bad else "all as it should be"
    say(f"\n{kills} kills in {time.monotonic() - began:.0f} s, seed {seed}: {verdict}.")
    if options.json:
        options.json.write_text(json.dumps([msgspec.to_builtins(tally) for tally in total.values()]))
    if bad:
        say(f"What went wrong is kept in {folder} and {boxed}.")
    else:
        shutil.rmtree(folder)
        shutil.rmtree(boxed)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
