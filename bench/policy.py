"""The decision alone, with its facts prepared; and, for comparison, what gathering the facts costs."""

from collections.abc import Iterator

from bench.home import BenchHome
from bench.rounds import Timing, interleave, timed
from bench.row import Plan, Row, alone
from coilclaw.gate.decision_input import Setting
from coilclaw.gate.policy import decide
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import ToolCall
from coilclaw.packets.canonical import JsonObject

PIPELINE = "git log --oneline -n 20 | grep -i fix > notes.txt && (cd src; wc -l *.py) || echo none"
CALLS: dict[str, tuple[str, JsonObject]] = {
    "a read": ("file_read", {"path": "SYSTEM.md"}),
    "a workspace write": ("file_write", {"path": "src/new.py", "content": "print(1)\n"}),
    "an owner's file": ("file_write", {"path": "policies/mine.json", "content": "{}"}),
    "a command": ("shell", {"command": "ls -la src"}),
    "a pipeline": ("shell", {"command": PIPELINE}),
    "a forbidden command": ("shell", {"command": "echo hi; rm -rf ~"}),
    "a URL": ("http", {"url": "https://example.com/a?b=c"}),
    "an unknown tool": ("file_reed", {"path": "x"}),
}
GATHERED = ("a read", "a command", "a pipeline")


def measure(plan: Plan) -> Iterator[Row]:
    """Decisions, then facts."""
    home = BenchHome(plan.folder)
    try:
        yield from _rows(plan, home)
    finally:
        home.close()


def _rows(plan: Plan, home: BenchHome) -> Iterator[Row]:
    app = home.app
    rules, setting, turn = app.policy(), Setting(source="chat"), Turn("turn_bench", "", "chat")
    calls = {name: ToolCall.of(tool, args) for name, (tool, args) in CALLS.items()}
    facts = {name: app.inspector.inspect(call, turn).facts for name, call in calls.items()}
    times = plan.size(500, 100)
    decisions = interleave(
        {
            name: timed(lambda prepared=prepared: decide(prepared, rules, setting), times)
            for name, prepared in facts.items()
        },
        plan.rounds,
    )
    every = [seconds for samples in decisions.values() for seconds in samples]
    worst = max(decisions, key=lambda name: Timing.of(decisions[name]).median)
    note = f"over {len(decisions)} kinds of call"
    yield alone("policy", "policy decision, facts prepared", "us", Timing.of(every).scaled(1e6), at_most=50, note=note)
    slowest = Timing.of(decisions[worst]).scaled(1e6)
    yield alone("policy", f"its slowest kind ({worst})", "us", slowest, at_most=50)
    gathering = interleave(
        {
            **{
                name: timed(lambda name=name: app.inspector.inspect(calls[name], turn), times // 5) for name in GATHERED
            },
            "policy files": timed(app.policy, times // 5),
        },
        plan.rounds,
    )
    for name, samples in gathering.items():
        what = "reading the policy files afresh" if name == "policy files" else f"gathering the facts of {name}"
        yield alone("policy", what, "us", Timing.of(samples).scaled(1e6))
