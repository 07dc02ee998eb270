"""Standing answers: which calls a yes may cover from now on, and whether one covers this call. Pure.

They lift the question of the autonomy matrix (`autonomy.*`) of a lane A call with risk R2 in an untainted turn, and no
other question: whatever else asks is there to ask each time. See docs/decisions/0023.
"""

import posixpath
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from pathlib import PurePosixPath

import msgspec

from coilclaw.gate.decision_input import AnswerMatch, Case, Facts, Standing
from coilclaw.gate.paths import PathFact
from coilclaw.lib.shell.facts import CommandFacts
from coilclaw.packets.action import Action, ToolCall
from coilclaw.packets.canonical import canonical_bytes, sha256_hex
from coilclaw.packets.card import FromNowOn, Offer, Until, What
from coilclaw.packets.decision import STANDING, Reason
from coilclaw.packets.ids import new_id, stamp
from coilclaw.packets.ports import Touches
from coilclaw.packets.text import one_line
from coilclaw.store.standing_answers import StandingAnswer

SHOWN = 200
"""Of a command, so many characters stand in what the owner is told; the card above shows all of it."""

_WORD = r"(?:[A-Za-z0-9_./:,+%@=-]|'[^']*'|\"[^\"$`\\!]*\")+"
_SET = (
    r"(?:(?:CI|NO_COLOR|FORCE_COLOR|PYTHONDONTWRITEBYTECODE|PYTHONUNBUFFERED|NODE_ENV|RUST_BACKTRACE|TZ|LANG|LC_ALL)"
    r"=[A-Za-z0-9_.:/-]* +|PYTHONPATH=(?![A-Za-z0-9_.:/-]*(?:\.\.|:/))[A-Za-z0-9_.][A-Za-z0-9_.:/-]* +)*"
)
"""Variables that select how a program shows what it does, and folders of Python modules below this one."""
_PLAIN = rf"(cd +[A-Za-z0-9_./-]+ +&& +)?({_SET})((?:[A-Za-z0-9_.-]+/)*[a-z][a-z0-9-]*)((?: +{_WORD})*) *"
"""One program with words that every shell takes as they stand: no operator, expansion, pattern or escape; the folder it
is run in, and what is set for it.

There is one way only to read a text by it: a model chooses the text, and trying them all could take for ever."""

_SHORTENED = re.compile(r" *(head|tail)(?: +-n? *[0-9]{1,9})? *")
"""A pipe that shows the beginning or the end of what a program writes, and nothing else."""
_NPX = ("npx --no-install", "npx --no", "npx")
_FOLDERS = ("folder", "anywhere")
_BINARIES = ("bin", ".bin")
"""Folders whose programs are called what they are: `.venv/bin/pytest`, `node_modules/.bin/tsc`."""
_RECIPES = frozenset({"package.json", "Makefile", "makefile", "GNUmakefile"})
"""What says what `npm` and `make` run: an answer about these holds while it stays as it is."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_:-]*")
_PYTEST = (
    "-q -qq -v -vv -vvv -x -s -l -ra -rA -rs -rf --lf --ff --nf --sw --co --quiet --verbose --exitfirst"
    " --last-failed --failed-first --stepwise --collect-only --showlocals --no-header --no-summary"
    " --disable-warnings --strict-markers -k= -m= -n= --tb= --maxfail= --durations= --color= --capture="
)
_VITEST = "--run --silent --bail= --passWithNoTests --no-coverage -t= --testNamePattern="
_JEST = (
    "-i --runInBand --ci --verbose --silent --bail --no-coverage --passWithNoTests -t= --testNamePattern="
    " --testPathPattern="
)
_NODE_TEST = "--test-only --test-name-pattern= --test-reporter=spec --test-reporter=tap --test-reporter=dot"
_SCRIPT = f"-s -- {_VITEST} {_JEST} {_NODE_TEST} -g= --grep="
_MYPY = "--strict --pretty --no-error-summary --show-error-codes --ignore-missing-imports -v"
_RUFF = "-q --quiet --no-fix --diff --statistics --select= --ignore= --output-format="
PROGRAMS: Mapping[str, frozenset[str]] = {
    name: frozenset(options.split())
    for name, options in {
        "pytest": _PYTEST,
        "python -m pytest": _PYTEST,
        "uv run pytest": _PYTEST,
        "python -m unittest": "-v -q -f -b --verbose --quiet --failfast --buffer --locals -k= -s= -p= -t="
        " --start-directory= --pattern= --top-level-directory=",
        **dict.fromkeys(("mypy", "python -m mypy", "uv run mypy"), _MYPY),
        **dict.fromkeys(("ruff check", "python -m ruff check", "uv run ruff check"), _RUFF),
        "black --check": "-q --quiet -v --verbose --diff",
        "flake8": "-q --quiet --select= --ignore= --max-line-length=",
        "pyright": "--warnings",
        "ruff format": "-q --quiet --check --diff",
        "cargo check": "-q --quiet -v --release --workspace --all-targets --all-features --locked --offline -p="
        " --features=",
        "cargo clippy": "-q --quiet -v --workspace --all-targets --all-features --locked --offline -p= --features=",
        "cargo test": "-q --quiet -v --release --workspace --all-targets --all-features --locked --offline --lib"
        " --no-fail-fast --no-run -p= --test= --features=",
        "go vet": "-v",
        "go test": "-v -race -short -failfast -cover -count= -run= -timeout=",
        **{f"{name} test": _SCRIPT for name in ("npm", "pnpm", "yarn")},
        **{f"{name} run *": _SCRIPT for name in ("npm", "pnpm", "yarn")},
        "node --test": _NODE_TEST,
        "vitest run": _VITEST,
        "jest": _JEST,
        "eslint": "--quiet --no-color --max-warnings= --ext= --no-error-on-unmatched-pattern",
        "prettier --check": "--no-color",
        "tsc --noEmit": "--pretty --strict --skipLibCheck",
        "make *": "-s -k -j -j2 -j4 -j8 --silent --keep-going",
        "mvn test": "-q -o -B --quiet --offline --batch-mode",
        "gradle test": "-q --quiet --offline --rerun-tasks --tests=",
    }.items()
}
"""Programs, with their subcommand, that an answer may cover with other arguments, and the options they may have: `=` at
their end stands for any value, `*` is any one name, which the answer keeps. None of these names a file to write, a
program to run or a place to take options from. What they run is the folder's own code, in a box without network that
can change that folder alone, and undo takes that back: with other arguments they run other parts of the same code."""
_ALONE = frozenset({"make *", "mvn test", "gradle test", "tsc --noEmit"})
"""Programs to which an operand is one more thing to do, or a variable to set."""


# What a call is compared with


def matches_of(
    call: ToolCall,
    touches: Touches,
    paths: Sequence[PathFact],
    command: CommandFacts | None,
    ran: Mapping[str, str] | None,
) -> tuple[AnswerMatch, ...]:
    """Every way an answer could cover this call. `ran` has the hash of each file that a command runs; None: unknown."""
    if command is None:
        return _writing(_folder(touches, paths))
    if command.opaque or command.blocked or command.unsure or touches.domains or ran is None:
        return ()
    shown = one_line(command.text)
    shown = shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}…"
    files = [path for path, digest in ran.items() if digest]
    kept = f" (while {', '.join(map(one_line, files))} stays as it is)" if files else ""
    bound = {"tool": call.tool, "args": call.args_bytes.decode(), "runs": dict(sorted(ran.items()))}
    exactly = _match("command", bound, f"this command: {shown}{kept}")
    name = _program(command, touches, ran)
    if name is None:
        return (exactly,)
    kind: dict[str, object] = {"tool": call.tool, "program": name}
    if files:
        kind["runs"] = bound["runs"]
    return exactly, _match("program", kind, f"{name} with other arguments{kept}")


def _match(what: What, bound: Mapping[str, object], text: str) -> AnswerMatch:
    data = canonical_bytes(msgspec.to_builtins({"what": what, **bound})).decode()
    return AnswerMatch(what=what, data=data, text=text)


def _folder(touches: Touches, paths: Sequence[PathFact]) -> str | None:
    """The folder that all of a call's writes lie in; None when it does anything but write ordinary files there."""
    if touches.requests or touches.restores is not None or touches.releases is not None or not touches.writes:
        return None
    if touches.removes is not None:  # who lets files be written has not said that they may go
        return None
    written = [path for path in paths if path.write]
    if not written or not all(path.relative and path.path_class == "plain" and not path.boxed for path in written):
        return None
    return posixpath.commonpath([posixpath.dirname(f"/{path.relative}") for path in written])[1:]


def _writing(folder: str | None) -> tuple[AnswerMatch, ...]:
    """What a yes to writes in a folder may cover: that folder, or every one. Work goes from one to the next."""
    if folder is None:
        return ()
    top = _match("folder", {"folder": ""}, "writing ordinary files in any folder here")
    if not folder:
        return (top,)
    below = _match("folder", {"folder": folder}, f"writing ordinary files in {one_line(folder)}/")
    return below, msgspec.structs.replace(top, what="anywhere")


def _program(command: CommandFacts, touches: Touches, ran: Mapping[str, str]) -> str | None:
    """The program and subcommand that an answer may cover with other arguments; None for any other call."""
    text, pipe = _whole_output(command.text)
    plain = re.fullmatch(_PLAIN, text) if command.text.isascii() and command.text.isprintable() else None
    if plain is None or command.writes or touches.seconds is not None:
        return None
    path, words = plain[3], [_unquoted(word) for word in re.findall(_WORD, plain[4])]
    starter = next((each for each in _NPX if [path, *words][: len(each.split())] == each.split()), "")
    if starter:  # it runs what the folder has installed under that name
        words = words[len(starter.split()) - 1 :]
        path, words = f"node_modules/.bin/{words[0] if words else ''}", words[1:]
    folder, _, name = path.rpartition("/")
    if folder and posixpath.basename(folder) not in _BINARIES:
        return None
    key = _known(["python" if name == "python3" else name, *words])
    if key is None or not set(command.programs) <= {name, *key.split(), pipe, *starter.split()[:1]}:
        return None
    # A file of the folder that has the name of a module would be run instead.
    own = [file for file in ran if (folder and file.endswith(path)) or posixpath.basename(file) in _RECIPES]
    if any(digest and file not in own for file, digest in ran.items()):
        return None
    length = len(key.split()) - 1
    before = " ".join(f"{plain[1] or ''} {plain[2]}".split())
    called = " ".join((f"{before} {f'{starter} {name}' if starter else path}".strip(), *words[:length]))
    return called if _harmless(words[length:], PROGRAMS[key], operands=key not in _ALONE) else None


def _whole_output(text: str) -> tuple[str, str]:
    """A command without what only shortens its output, `2>&1 | tail -20`, and the program that does."""
    before, _, last = text.rpartition("|")
    shortened = _SHORTENED.fullmatch(last) if before else None
    if shortened is not None:
        text = before
    text = text.rstrip(" ")
    return text.removesuffix(" 2>&1"), shortened[1] if shortened is not None else ""


def _known(words: list[str]) -> str | None:
    """The entry of the list that these words begin with."""
    for key in PROGRAMS:
        parts = key.split()
        pairs = list(zip(parts, words, strict=False))
        if len(pairs) == len(parts) and all(
            one == word or (one == "*" and _NAME.fullmatch(word)) for one, word in pairs
        ):
            return key
    return None


def _unquoted(word: str) -> str:
    return re.sub(r"'([^']*)'|\"([^\"]*)\"", lambda quoted: quoted[1] if quoted[1] is not None else quoted[2], word)


def _harmless(words: list[str], options: frozenset[str], *, operands: bool) -> bool:
    """Whether these are operands and options on the list alone, in spellings that leave no doubt."""
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            if not operands or not word or word.startswith("@"):  # some programs take options from a file named so
                return False
        elif "=" in word and word not in options:
            if not word.startswith("--") or f"{word.partition('=')[0]}=" not in options:
                return False
        elif f"{word}=" in options:
            value = next(rest, "-")
            if value.startswith(("-", "@")):
                return False
        elif word not in options:
            return False
    return True


# Whether one covers a call


def lifting(case: Case, asks: Sequence[Reason]) -> StandingAnswer | None:
    """The standing answer to a question; None if there is none, or the question must be asked each time."""
    standing = case.facts.standing
    if standing is None or not standing.answers or not may_stand(case.facts, case.lane, case.risk, asks[0].rule):
        return None
    if len(asks) != 1:
        return None
    exact = {(match.what, match.digest): match.data for match in standing.matches if match.what not in _FOLDERS}
    for answer in standing.answers:
        if exact.get((answer.what, answer.digest)) == answer.match or _covers(answer, case.facts, standing):
            return answer
    return None


def may_stand(facts: Facts, lane: str, risk: str, rule: str) -> bool:
    """Whether the question about a call is one that a standing answer may settle: `rule` is the first that asks."""
    if lane != "A" or risk != "R2" or not rule.startswith("autonomy.") or facts.fresh or facts.inherited:
        return False
    if facts.unsafe or facts.domains or facts.url is not None or facts.irreversible:
        return False
    if facts.tool is None or facts.tool.always_ask or facts.tool.destination != "workspace":
        return False
    return all(path.path_class in ("plain", "informal") for path in facts.paths if path.write)


def _covers(answer: StandingAnswer, facts: Facts, standing: Standing) -> bool:
    """Whether an answer about a folder covers everything that this call writes."""
    if answer.what not in _FOLDERS or not any(match.what == "folder" for match in standing.matches):
        return False
    folder = answer.match
    written = [f"/{path.relative}" for path in facts.paths if path.write]
    tops = (top for top in _parents(written) if _match("folder", {"folder": top[1:]}, "").data == folder)
    return sha256_hex(folder.encode()) == answer.digest and next(tops, None) is not None


def _parents(written: Sequence[str]) -> list[str]:
    """Every folder that all of these lie below, as `/a/b`, `/a`, `/`."""
    top = PurePosixPath(posixpath.commonpath([posixpath.dirname(path) for path in written]))
    return [str(each) for each in (top, *top.parents)]


def reason_of(answer: StandingAnswer) -> Reason:
    """Why the call runs without asking."""
    return Reason(
        rule=f"answer.{answer.answer_id}",
        code=STANDING,
        text=f"You said yes from now on to {answer.scope}.",
        change=f"To be asked again: coilclaw answers revoke {answer.answer_id}",
    )


# Offering and making them


def offers(action: Action, facts: Facts) -> tuple[Offer, ...]:
    """What a yes to this action may cover from now on."""
    decision, standing = action.decision, facts.standing
    if decision.verdict != "ask" or len(decision.reasons) != 1 or standing is None or action.taint:
        return ()
    if not may_stand(facts, decision.lane, decision.risk, decision.rule):
        return ()
    until: tuple[Until, ...] = ("conversation", "today", "revoked") if action.thread_id else ("today", "revoked")
    return tuple(Offer(what=match.what, text=match.text, until=until) for match in standing.matches)


def answer_for(action: Action, facts: Facts, wanted: FromNowOn, *, now: datetime) -> StandingAnswer | None:
    """The answer that a yes makes, still without who gave it; None when it is not offered."""
    offered = next((offer for offer in offers(action, facts) if offer.what == wanted.what), None)
    if offered is None or wanted.until not in offered.until or facts.standing is None:
        return None
    match = next(match for match in facts.standing.matches if match.what == wanted.what)
    return StandingAnswer(
        answer_id=new_id("ans", now),
        what=match.what,
        scope=match.text,
        match=match.data,
        digest=match.digest,
        root=facts.standing.root,
        thread_id=action.thread_id if wanted.until == "conversation" else None,
        action_id=action.action_id,
        expires_at=stamp(end_of_today(now)) if wanted.until == "today" else None,
        created_at=stamp(now),
        created_by="",
        proof="",
    )


def end_of_today(now: datetime) -> datetime:
    """The next midnight of this machine's clock."""
    tomorrow = now.astimezone().date() + timedelta(days=1)
    return datetime.combine(tomorrow, time.min).astimezone(UTC)
