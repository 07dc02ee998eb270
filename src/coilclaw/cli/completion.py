"""What a shell offers on Tab for ids and names, the newest first. It only reads, and on any fault it offers nothing."""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

    from coilclaw.config import Config
    from coilclaw.store.completions import Kind

Complete: TypeAlias = "Callable[[click.Context, click.Parameter, str], list[CompletionItem]]"
"""What click asks while a word is being typed."""
Offer: TypeAlias = tuple[str, str]
"""What would be typed, and what there is to say about it."""

MOST = 20
HELP = 80
"""So many characters of what is said beside an offer."""
SOP_BYTES = 64 * 1024


def _offering(find: "Callable[[Config, str], Iterable[Offer]]") -> Complete:
    """A completer over what `find` gives for the configuration of this home and the word so far."""

    def complete(_ctx: "click.Context", _param: "click.Parameter", typed: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        try:
            from coilclaw.config import home_from, load
            from coilclaw.secrets.redactor import Redactor

            home = home_from(os.environ)
            if not home.root.is_dir():
                return []
            redact = Redactor().text
            offers = list(find(load(home, os.environ).config, typed))[:MOST]
            return [CompletionItem(name, help=_told(redact(about))) for name, about in offers if _plain(name)]
        except Exception:  # whatever it was: in the middle of a command line nothing may be said
            return []

    return complete


def _plain(name: str) -> bool:
    """Whether it can stand on a command line as it is: shells put offers there unquoted, and Enter runs it."""
    return re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name) is not None


def _told(text: str) -> str:
    """One line; fish takes a comma for the end of it."""
    from coilclaw.packets.text import one_line

    line = one_line(text.replace("\n", " ").replace("\t", " ")).replace(",", ";")
    return line if len(line) <= HELP else f"{line[:HELP]}…"


def _rows(config: "Config", kind: "Kind", typed: str, among: Sequence[str] = ()) -> "list[tuple[str, ...]]":
    from coilclaw.store.completions import completions

    return completions(config.memory.path, kind, typed, among, most=MOST)


def _config_keys(config: "Config", typed: str) -> Iterable[Offer]:
    from coilclaw.config.edit import key_names
    from coilclaw.config.options import values_of

    there = [".".join(path) for path, _ in values_of(config)]
    names = dict.fromkeys((*(key for key in key_names() if ".NAME." not in key), *there))
    return [(key, "") for key in names if key.startswith(typed)]


config_keys = _offering(_config_keys)
"""The keys of config.toml, those of named tables that are there included."""


def actions(*statuses: str) -> Complete:
    """Actions of these statuses, or all."""

    def find(config: "Config", typed: str) -> Iterable[Offer]:
        from coilclaw.tools.builtin import builtin_tools

        tools = builtin_tools()
        for action_id, status, name, args in _rows(config, "actions", typed, statuses):
            about = name
            if name in tools:
                try:
                    about = f"{name}: {tools[name].summary(tools[name].parse(args.encode()))}"
                except Exception:  # arguments that never fitted the tool say nothing
                    about = name
            yield action_id, about if len(statuses) == 1 else f"{status}: {about}"

    return _offering(find)


def jobs(*states: str) -> Complete:
    """Jobs in these states, or all."""

    def find(config: "Config", typed: str) -> Iterable[Offer]:
        from coilclaw.cli.phrases import JOBS

        words: dict[str, str] = {**JOBS}
        for job_id, state, goal in _rows(config, "jobs", typed, states):
            yield job_id, f"{words.get(state, state)}: {goal}"

    return _offering(find)


def pulls(*states: str) -> Complete:
    """Pull requests in these states, or all."""

    def find(config: "Config", typed: str) -> Iterable[Offer]:
        return [(row[0], f"{row[1].lower()}: {row[2]}") for row in _rows(config, "pulls", typed, states)]

    return _offering(find)


def _schedules(config: "Config", typed: str) -> Iterable[Offer]:
    return [(str(row[0]), str(row[1])) for row in _rows(config, "schedules", typed)]


def _runs_in(*states: str) -> Complete:
    def find(config: "Config", typed: str) -> Iterable[Offer]:
        return [(row[0], f"{row[1]}: {row[2].lower()}") for row in _rows(config, "sop_runs", typed, states)]

    return _offering(find)


def sop_runs(ctx: "click.Context", param: "click.Parameter", typed: str) -> "list[CompletionItem]":
    """Runs of procedures; only those that are not over where one is to go on."""
    states = ("RUNNING", "WAITING") if ctx.info_name in ("approve", "resume") else ()
    return _runs_in(*states)(ctx, param, typed)


def _receipts(config: "Config", typed: str) -> Iterable[Offer]:
    return [(row[0], f"{row[1]}: {row[2]}") for row in _rows(config, "receipts", typed)]


def _conversations(config: "Config", typed: str) -> Iterable[Offer]:
    return [(row[0], row[1]) for row in _rows(config, "conversations", typed)]


def _devices(config: "Config", typed: str) -> Iterable[Offer]:
    return [(row[0], row[1]) for row in _rows(config, "devices", typed)]


def _tools(_config: "Config", typed: str) -> Iterable[Offer]:
    from coilclaw.tools.builtin import builtin_tools

    return [(name, tool.description) for name, tool in builtin_tools().items() if name.startswith(typed)]


def _providers(config: "Config", typed: str) -> Iterable[Offer]:
    models = config.providers.models.items()
    return [(name, model.kind) for name, model in models if name.startswith(typed)]


def _snapshots(_config: "Config", typed: str) -> Iterable[Offer]:
    """Without their files: a shell does not wait for thousands of names."""
    import msgspec

    from coilclaw.config import home_from

    files = sorted((home_from(os.environ).root / "snapshots").glob("snap_*.json"), reverse=True)
    named = [file for file in files if file.name.startswith(typed)][:MOST]
    found = [msgspec.json.decode(file.read_bytes(), type=dict[str, msgspec.Raw]) for file in named]
    text = msgspec.json.Decoder(str)
    return [(text.decode(each["id"]), text.decode(each["note"])) for each in found]


def _sops(config: "Config", typed: str) -> Iterable[Offer]:
    folders = [each for each in (config.workspace_dir / "sops").iterdir() if each.name.startswith(typed)]
    files = [(each.name, each / "SOP.toml") for each in folders]
    changed = [(file.stat().st_mtime, name, file) for name, file in files if file.is_file() and not file.is_symlink()]
    return [(name, _description(file)) for _, name, file in sorted(changed, reverse=True)[:MOST]]


def _description(file: Path) -> str:
    import tomllib

    try:
        with file.open("rb") as opened:
            return str(tomllib.loads(opened.read(SOP_BYTES).decode()).get("description", ""))
    except (OSError, ValueError):
        return ""


schedules = _offering(_schedules)
sops = _offering(_sops)
receipts = _offering(_receipts)
conversations = _offering(_conversations)
devices = _offering(_devices)
tools = _offering(_tools)
providers = _offering(_providers)
snapshots = _offering(_snapshots)
