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
_PLAIN = rf"([a-z][a-z0-9-]*)((?: +{_WORD})*) *"
"""One program with words that every shell takes as they stand: no operator, expansion, pattern or escape.

There is one way only to read a text by it: a model chooses the text, and trying them all could take for ever."""

_FOLDERS = ("folder", "anywhere")
_VERBS = frozenset({"cargo", "go", "ruff"})
PROGRAMS: Mapping[str, frozenset[str]] = {
    name: frozenset(options.split())
    for name, options in {
        "pytest": "-q -qq -v -vv -vvv -x -s -l -ra -rA -rs -rf --lf --ff --nf --sw --co --quiet --verbose --exitfirst"
        " --last-failed --failed-first --stepwise --collect-only --showlocals --no-header --no-summary"
        " --disable-warnings --strict-markers -k= -m= -n= --tb= --maxfail= --durations= --color= --capture=",
        "python -m unittest": "-v -q -f -b --verbose --quiet --failfast --buffer --locals -k= -s= -p= -t="
        " --start-directory= --pattern= --top-level-directory=",
        "mypy": "--strict --pretty --no-error-summary --show-error-codes --ignore-missing-imports -v",
        "ruff check": "-q --quiet --no-fix --diff --statistics --select= --ignore= --output-format=",
        "ruff format": "-q --quiet --check --diff",
        "cargo check": "-q --quiet -v --release --workspace --all-targets --all-features --locked --offline -p="
        " --features=",
        "cargo clippy": "-q --quiet -v --workspace --all-targets --all-features --locked --offline -p= --features=",
        "cargo test": "-q --quiet -v --release --workspace --all-targets --all-features --locked --offline --lib"
        " --no-fail-fast --no-run -p= --test= --features=",
        "go vet": "-v",
        "go test": "-v -race -short -failfast -cover -count= -run= -timeout=",
    }.items()
}
"""Programs, with their subcommand, that an answer may cover with other arguments, and the options they may have: `=`
ends those with a value. None of these names a file to write, a program to run or a place to take options from."""


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
    return exactly, _match("program", {"tool": call.tool, "program": name}, f"{name} with other arguments")


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
    plain = re.fullmatch(_PLAIN, command.text) if command.text.isascii() and command.text.isprintable() else None
    if plain is None or command.writes or any(ran.values()) or touches.seconds is not None:
        return None
    name, words = plain[1], [_unquoted(word) for word in re.findall(_WORD, plain[2])]
    if name in ("python", "python3") and words[:1] == ["-m"] and words[1:]:
        # A file of the folder that has the module's name would be run instead: `ran` says that there is none.
        name, module, words = f"{name} -m {words[1]}", words[1], words[2:]
        options = PROGRAMS.get(module if module == "pytest" else f"python -m {module}")
    elif command.programs != (name,) or command.executes:
        return None
    else:
        if name in _VERBS and words:
            name, words = f"{name} {words[0]}", words[1:]
        options = PROGRAMS.get(name)
    return name if options is not None and _harmless(words, options) else None


def _unquoted(word: str) -> str:
    return re.sub(r"'([^']*)'|\"([^\"]*)\"", lambda quoted: quoted[1] if quoted[1] is not None else quoted[2], word)


def _harmless(words: list[str], options: frozenset[str]) -> bool:
    """Whether these are operands and options on the list alone, in spellings that leave no doubt."""
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            if not word or word.startswith("@"):  # some programs take options from a file named so
                return False
        elif "=" in word:
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
