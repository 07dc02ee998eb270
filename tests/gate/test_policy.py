"""The decision, as a pure function."""

import itertools
import json
import os

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coilclaw.gate.decision_input import MATRIX, Facts, Policy, Setting, ToolFact, UrlFact
from coilclaw.gate.paths import PathFact, classify
from coilclaw.gate.policy import decide
from coilclaw.gate.policy_file import PolicyRule, When, load_policies
from coilclaw.lib.shell.command import read_command
from coilclaw.packets.forge import MergeFacts
from coilclaw.tools.declare import ANYONE

ALL = frozenset({"file_read", "file_write", "shell", "http", "send", "note"})


def policy(**changes):
    base = {
        "autonomy": "supervised",
        "workspace_only": True,
        "allowed_commands": frozenset({"ls", "git", "find", "python3", "cat"}),
        "forbidden_commands": frozenset({"rm", "dd", "mkfs"}),
        "allowlists": (("channels.cli.tools_allow", ALL),),
        "offered": ALL,
        "calls_per_minute": 60,
        "open_proposals": 100,
        "rules": (),
        "broken": "",
        "hash": "h" * 64,
    }
    return Policy(**{**base, **changes})


TOOLS = {
    "file_read": ToolFact(name="file_read", effect="READ", destination="workspace", always_ask=False, callers=ANYONE),
    "file_write": ToolFact(
        name="file_write", effect="WRITE", destination="workspace", always_ask=False, callers=ANYONE
    ),
    "shell": ToolFact(name="shell", effect="WRITE", destination="workspace", always_ask=False, callers=ANYONE),
    "http": ToolFact(name="http", effect="READ", destination="external", always_ask=False, callers=ANYONE),
    "send": ToolFact(name="send", effect="EXFILTRATION", destination="external", always_ask=False, callers=ANYONE),
    "note": ToolFact(name="note", effect="WRITE", destination="internal", always_ask=False, callers=ANYONE),
}


MERGE = MergeFacts(
    mode="strict",
    allow=(),
    paths=(),
    governs=(".github/a.yml", ".github/b.yml", "SYSTEM.md", "policies/a.json"),
    risk="R3",
    tainted=False,
    checks_passed=True,
    of_job=True,
)


def path(relative, *, write=False, boxed=False, **changes):
    base = {
        "asked": relative if relative is not None else "/outside/x",
        "absolute": f"/ws/{relative}" if relative is not None else "/outside/x",
        "relative": relative,
        "path_class": classify(relative) if relative is not None else "plain",
        "forbidden_by": "",
        "in_home": False,
        "write": write,
        "boxed": boxed,
        "fault": "",
    }
    return PathFact(**{**base, **changes})


def facts(tool="file_read", **changes):
    base = {
        "tool_name": tool,
        "tool": TOOLS.get(tool),
        "near_names": (),
        "schema_error": "",
        "estop": False,
        "paths": (),
        "command": None,
        "url": None,
        "secret": False,
        "unsafe": False,
        "recent_calls": 0,
        "open_proposals": 0,
        "fresh": (),
        "inherited": (),
        "private": False,
    }
    return Facts(**{**base, **changes})


def address(host="x.com", *, code="", reason="", origin="constructed", followed=0):
    return UrlFact(host=host, code=code, reason=reason, origin=origin, followed=followed, stays=False)


def judge(given_facts, source="chat", **changes):
    return decide(given_facts, policy(**changes), Setting(source=source))


def write(relative, **changes):
    return facts("file_write", paths=(path(relative, write=True),), **changes)


@pytest.mark.parametrize(
    ("autonomy", "given_facts", "verdict"),
    [
        ("readonly", facts(), "allow"), ("supervised", facts(), "allow"), ("full", facts(), "allow"),
        ("readonly", facts("note"), "deny"), ("supervised", facts("note"), "allow"), ("full", facts("note"), "allow"),
        ("readonly", write("a.txt"), "deny"), ("supervised", write("a.txt"), "ask"), ("full", write("a.txt"), "allow"),
        ("supervised", write("intel/x.md"), "allow"), ("supervised", write("memory/x.md"), "allow"),
        ("supervised", write("memory/PREFERENCES.md"), "ask"),
        ("supervised", facts("shell", command=read_command("ls -la")), "ask"),
        ("full", facts("shell", command=read_command("ls -la")), "allow"),
        ("readonly", facts("shell", command=read_command("ls -la")), "deny"),
        ("supervised", facts("shell", command=read_command("frobnicate")), "deny"),
        ("full", facts("shell", command=read_command("frobnicate")), "ask"),
        ("full", facts("shell", command=read_command("python3 -c 'print(1)'")), "ask"),
        ("full", facts("shell", command=read_command("$X")), "ask"),
        ("full", facts("shell", command=read_command("rm notes.txt")), "deny"),
        ("full", facts("shell", command=read_command("mkfs.ext4 /dev/sda")), "deny"),
        ("supervised", facts("shell", command=read_command("ls | frobnicate")), "deny"),
    ],
)  # fmt: skip
def test_the_matrix_of_autonomy_and_risk(autonomy, given_facts, verdict):
    assert judge(given_facts, autonomy=autonomy).verdict == verdict


@pytest.mark.parametrize("autonomy", ["supervised", "full"])
@pytest.mark.parametrize(
    "given_facts", [facts("send"), write("SYSTEM.md"), write("policies/a.json"), write(".github/x")]
)
def test_lanes_b_and_c_always_ask(autonomy, given_facts):
    decision = judge(given_facts, autonomy=autonomy)
    assert decision.verdict == "ask"
    assert decision.lane in ("B", "C")


def governing(tool, **changes):
    return msgspec.structs.replace(facts(tool, **changes), tool=msgspec.structs.replace(TOOLS[tool], governs=True))


@pytest.mark.parametrize(
    ("given_facts", "named"),
    [
        (write("SYSTEM.md"), " (SYSTEM.md)"),
        (write("policies/a.json"), " (policies/a.json)"),
        (governing("note"), ""),
        (governing("send", merge=MERGE), " (.github/a.yml, .github/b.yml, SYSTEM.md …)"),
    ],
)
def test_a_lane_c_card_says_that_it_changes_what_governs_the_agent(given_facts, named):
    decision = judge(given_facts)
    assert decision.lane == "C"
    assert decision.reasons[0] == (
        f"It changes what governs the agent{named}, so a yes needs proof that it is yours:"
        " a passkey, or the terminal until you have one."
    )


def test_readonly_denies_lanes_b_and_c():
    assert judge(facts("send"), autonomy="readonly").code == "AUTONOMY_READONLY"
    assert judge(write("SYSTEM.md"), autonomy="readonly").verdict == "deny"


@pytest.mark.parametrize("name", [".git/config", "a/.git/hooks/x", "audit/x", "jobs/2026/01/j.md", ".GIT/x", "Audit/y"])
def test_what_the_runtime_writes_is_never_written_by_a_tool(name):
    assert judge(write(name), autonomy="full").code == "PATH_PROTECTED"


def test_reading_what_the_runtime_writes_is_fine():
    assert judge(facts(paths=(path("jobs/2026/01/j.md"),))).verdict == "allow"


@pytest.mark.parametrize(
    ("name", "untainted"),
    [
        ("skills/x/SKILL.md", "allow"), ("sops/x/SOP.toml", "ask"), ("cron/jobs.json", "ask"), (".x", "allow"),
        (".envrc", "ask"), ("a/.vscode/tasks.json", "ask"), ("memory/AGENTS.md", "ask"),
    ],
)  # fmt: skip
def test_what_steers_later_work_or_is_run_by_others_is_denied_when_tainted(name, untainted):
    assert judge(write(name), autonomy="full").verdict == untainted
    assert judge(write(name, fresh=("untrusted:web",)), autonomy="full").code == "PATH_TAINTED"
    assert judge(write(name, inherited=("untrusted:web",)), autonomy="full").code == "PATH_TAINTED"


def test_a_merge_names_what_other_programs_execute():
    merge = msgspec.structs.replace(MERGE, governs=(), paths=("a.txt", "src/.envrc"))
    assert "automatically: src/.envrc." in " ".join(judge(facts("send", merge=merge)).reasons)


@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize("name", ["cron/jobs.json", "sops/x/SOP.toml", "Cron/jobs.json"])
def test_what_starts_work_in_the_owners_name_asks_in_full_unless_the_owner_writes_it(name, boxed):
    command = read_command("ls") if boxed else None
    given = facts("shell" if boxed else "file_write", command=command, paths=(path(name, write=True, boxed=boxed),))
    assert judge(given, autonomy="full").code == "STARTS_LATER_WORK"
    assert judge(given, source="gateway", autonomy="full").verdict == "allow"
    assert judge(given, source="cli", autonomy="full").verdict == "allow"


def test_a_command_cannot_write_what_governs_the_agent():
    given_facts = facts("shell", command=read_command("ls"), paths=(path("SYSTEM.md", write=True, boxed=True),))
    assert judge(given_facts, autonomy="full").code == "PATH_PROTECTED"


def test_outside_the_workspace_is_denied_and_high_risk_when_opened_up():
    outside = facts(paths=(path(None),))
    assert judge(outside).code == "PATH_OUTSIDE_WORKSPACE"
    assert judge(outside, workspace_only=False).verdict == "deny"  # R3 when supervised
    assert judge(outside, workspace_only=False, autonomy="full").verdict == "ask"


def test_the_boxs_own_places_are_not_outside():
    for name in ("/dev/null", "/tmp/x", "/usr/include/stdio.h"):
        given_facts = facts(
            "shell", command=read_command("ls"), paths=(path(None, boxed=True, asked=name, absolute=name),)
        )
        assert judge(given_facts, autonomy="full").verdict == "allow", name
    for name in ("/etc/passwd", "/usr/../etc/x", "/home/x", "/tmp/../root"):
        given_facts = facts(
            "shell", command=read_command("ls"), paths=(path(None, boxed=True, asked=name, absolute=name),)
        )
        assert judge(given_facts, autonomy="full").verdict == "deny", name


def test_fresh_taint_blocks_what_goes_out_and_inherited_taint_asks():
    assert judge(facts("send", fresh=("untrusted:x",))).code == "POLICY_BLOCKED_UNTRUSTED_TURN"
    decision = judge(facts("send", inherited=("untrusted:x",)))
    assert decision.verdict == "ask"
    assert any("untrusted:x" in reason for reason in decision.reasons)


ASKING = {
    "a file": write("a.txt"),
    "what governs the agent": write("SYSTEM.md"),
    "a command": facts("shell", command=read_command("ls -la")),
    "an address": facts("http", url=address()),
}


@pytest.mark.parametrize("given_facts", ASKING.values(), ids=ASKING)
@pytest.mark.parametrize("label", ["untrusted:gmail:partner.example", "untrusted:gcal"])
def test_turn_that_read_mail_puts_no_question_to_the_owner(given_facts, label):
    """What would ask is held back, for the owner to have shown; a page that somebody chose to open is no such thing."""
    given = msgspec.structs.replace(given_facts, private=True)
    held = judge(msgspec.structs.replace(given, fresh=(label,)))
    assert (held.verdict, held.code, held.rule) == ("deny", "POLICY_BLOCKED_UNTRUSTED_TURN", "taint.uninvited")
    assert held.allows == ()
    for other in ({"fresh": ("untrusted:gmailing.example",)}, {"inherited": (label,)}):
        assert judge(msgspec.structs.replace(given, **other)).verdict == "ask"


def test_turn_that_read_mail_may_ask_to_read_on_and_do_what_needs_no_question():
    label = ("untrusted:gmail:partner.example",)
    whole = msgspec.structs.replace(TOOLS["http"], always_ask=True)
    given = msgspec.structs.replace(facts("http", fresh=label), tool=whole)
    assert judge(msgspec.structs.replace(given, identity="user")).verdict == "ask"
    assert judge(given).verdict == "deny"
    assert judge(facts("note", fresh=label)).verdict == "allow"
    by_user = msgspec.structs.replace(given, identity="user")
    assert judge(msgspec.structs.replace(by_user, asked_reads=1)).rule == "taint.uninvited", "one question is enough"
    assert judge(msgspec.structs.replace(by_user, asked_reads=1, fresh=())).verdict == "ask"
    for source in ("job", "schedule", "sop"):
        assert judge(by_user, source).rule == "taint.uninvited", "nobody is there who asked for it"


STARTED = msgspec.structs.replace(facts("note"), tool=msgspec.structs.replace(TOOLS["note"], outlasts=True))


@pytest.mark.parametrize("autonomy", ["supervised", "full"])
@pytest.mark.parametrize("given_facts", [STARTED, write("memory/x.md")], ids=["job", "memory"])
def test_what_outlasts_a_turn_that_read_mail_waits_for_the_owner(given_facts, autonomy):
    label = ("untrusted:gmail:partner.example",)
    assert judge(msgspec.structs.replace(given_facts, fresh=label), autonomy=autonomy).rule == "taint.uninvited"
    later = judge(msgspec.structs.replace(given_facts, inherited=label), autonomy=autonomy)
    assert (later.verdict, later.code) == ("ask", "TAINT_OUTLASTS")
    assert judge(msgspec.structs.replace(given_facts, fresh=("untrusted:x",)), autonomy=autonomy).verdict == "allow"


def test_every_layer_must_list_a_tool():
    layers = (("a", frozenset({"file_read"})), ("b", frozenset({"file_write"})))
    assert judge(facts(), allowlists=layers).rule == "allowlist.b"


def test_the_airlocks_no_is_a_denial():
    url = address("", code="NOT_LISTED", reason="evil.example is not listed.")
    assert judge(facts("http", url=url), autonomy="full").code == "NOT_LISTED"


def test_a_broken_policy_file_leaves_only_reads():
    assert judge(facts(), broken="x").verdict == "allow"
    assert judge(facts("note"), broken="x", autonomy="full").code == "POLICY_BROKEN"
    assert judge(facts("shell", command=read_command("ls")), broken="x", autonomy="full").code == "POLICY_BROKEN"


RULES = [
    (When(tool="file_read"), facts(), True),
    (When(tool="file"), facts(), False),
    (When(tool=("http", "file_read")), facts(), True),
    (When(path="notes/**"), facts(paths=(path("notes/a/b.txt"),)), True),
    (When(path="notes/**"), facts(paths=(path("notes"),)), True),
    (When(path="notes/**"), facts(paths=(path("notes2/a"),)), False),
    (When(path="a.txt"), facts(paths=(path("b/a.txt"),)), False),
    (When(path="**/.env"), facts(paths=(path("b/.env"),)), True),
    (When(path="**/.env"), facts(paths=(path(".env"),)), True),
    (When(path="**/.env"), facts(paths=(path("b/x.env"),)), False),
    (When(command="git"), facts("shell", command=read_command("ls; git log")), True),
    (When(command="gi"), facts("shell", command=read_command("git log")), False),
    (When(domain="*.example.com"), facts("http", url=address("a.example.com")), True),
    (When(domain="*.example.com"), facts("http", url=address("example.com")), False),
    (When(domain="example.com"), facts("http", url=address("badexample.com")), False),
    (When(source="chat"), facts(), True),
    (When(source="job"), facts(), False),
    (When(lane="B"), facts("send"), True),
    (When(risk="R0"), facts(), True),
    (When(tool="file_read", risk="R2"), facts(), False),
    (When(), facts(), True),
]


@pytest.mark.parametrize(("when", "given_facts", "applies"), RULES)
def test_policy_rules_match_exactly(when, given_facts, applies):
    rule = PolicyRule(id="r1", when=when, verdict="deny", reason="because")
    decision = judge(given_facts, rules=(rule,), autonomy="full")
    assert (decision.rule == "policy.r1") == applies


def test_a_rule_can_ask_for_what_would_run():
    rule = PolicyRule(id="look", when=When(tool="file_read"), verdict="ask", reason="look first")
    assert judge(facts(), rules=(rule,)).verdict == "ask"


def test_a_secret_in_the_arguments_is_denied():
    assert judge(facts(secret=True), autonomy="full").code == "SECRET_NOT_GRANTED"


def test_too_many_calls_in_a_minute_are_denied():
    assert judge(facts("note", recent_calls=60)).code == "RATE_LIMITED"
    assert judge(facts("note", recent_calls=59)).verdict == "allow"


def test_too_many_calls_deny_no_read_that_stays_here_in_a_conversation():
    assert judge(facts(recent_calls=60)).verdict == "allow"
    assert judge(facts("http", recent_calls=60)).code == "RATE_LIMITED"
    assert judge(facts(recent_calls=60), source="job").code == "RATE_LIMITED"


def test_a_full_queue_denies_what_would_only_wait():
    assert judge(write("a.txt", open_proposals=100)).code == "TOO_MANY_PROPOSALS"
    assert judge(facts(open_proposals=100)).verdict == "allow"


@pytest.mark.parametrize("autonomy", ["supervised", "full"])
def test_a_command_without_a_box_is_the_owners_alone(autonomy):
    decision = judge(facts("shell", command=read_command("ls"), unsafe=True), autonomy=autonomy)
    assert (decision.verdict, decision.code, decision.lane, decision.risk) == ("ask", "UNSAFE", "C", "R3")


@pytest.mark.parametrize(
    ("url", "clean", "holding"),
    [
        (address(), "allow", "ask"),
        (address(origin="owner"), "allow", "allow"),
        (address(origin="configured"), "allow", "allow"),
        (address(origin="page", followed=1), "allow", "allow"),
        (address(origin="page", followed=2), "ask", "ask"),
        (address(origin="search", followed=4), "allow", "allow"),
        (address(origin="search", followed=5), "ask", "ask"),
    ],
)
def test_an_address_that_the_model_put_together_asks_once_there_is_something_to_carry(url, clean, holding):
    assert judge(facts("http", url=url)).verdict == clean
    for autonomy in ("supervised", "full", "readonly"):
        for taken in ({"fresh": ("untrusted:y",)}, {"inherited": ("untrusted:y",)}, {"private": True}):
            assert judge(facts("http", url=url, **taken), autonomy=autonomy).verdict == holding
    assert judge(facts("http", url=address()), autonomy="readonly").code == "CONSTRUCTED_GET"


def test_words_for_the_search_server_ask_only_after_private_content():
    url = address(origin="query")
    assert judge(facts("http", url=url, fresh=("untrusted:y",)), autonomy="readonly").verdict == "allow"
    assert judge(facts("http", url=url, private=True), autonomy="full").code == "CONSTRUCTED_GET"


def test_an_unknown_tool_is_denied():
    decision = judge(facts("nonsense", near_names=("note",)))
    assert (decision.verdict, decision.code, decision.risk) == ("deny", "TOOL_UNKNOWN", "R3")


states = st.builds(
    facts,
    tool=st.sampled_from([*TOOLS, "nonsense"]),
    schema_error=st.sampled_from(["", "bad"]),
    estop=st.booleans(),
    fresh=st.sampled_from([(), ("untrusted:x",), ("untrusted:gmail:x",)]),
    inherited=st.sampled_from([(), ("untrusted:y",)]),
    command=st.sampled_from([None, *map(read_command, ["ls", "rm x", "$X", "frob", "curl x | sh"])]),
    paths=st.lists(
        st.builds(
            path,
            st.sampled_from(["a", "SYSTEM.md", ".git/x", "skills/x", "memory/m", None]),
            write=st.booleans(),
            boxed=st.booleans(),
            forbidden_by=st.sampled_from(["", "/etc"]),
            in_home=st.booleans(),
        ),
        max_size=2,
    ).map(tuple),
)
policies = st.builds(
    policy, autonomy=st.sampled_from(list(MATRIX)), workspace_only=st.booleans(), broken=st.sampled_from(["", "b"])
)


@settings(max_examples=600)
@given(states, policies)
def test_every_decision_is_whole_and_consistent(given_facts, rules):
    decision = decide(given_facts, rules, Setting(source="chat"))
    assert decision.reasons
    assert decision.rule
    assert decision.code
    assert decision.allowed == (decision.verdict == "allow")
    assert decision.requires_approval == (decision.verdict == "ask")
    assert decision.risk_level == decision.risk
    assert decision == decide(given_facts, rules, Setting(source="chat"))


@settings(max_examples=600)
@given(states, policies)
def test_the_hard_blocks_hold_whatever_else_is_true(given_facts, rules):
    verdict = decide(given_facts, rules, Setting(source="chat")).verdict
    hard = (
        given_facts.estop
        or given_facts.schema_error
        or given_facts.tool is None
        or any(p.in_home or p.forbidden_by for p in given_facts.paths)
        or any(p.write and p.path_class == "never" and p.relative is not None for p in given_facts.paths)
        or (given_facts.command and ("rm" in given_facts.command.programs or given_facts.command.blocked))
        or (given_facts.tool_name == "send" and given_facts.fresh)
    )
    if hard:
        assert verdict == "deny"
    if given_facts.tool_name == "send" or (given_facts.command and given_facts.command.opaque):
        assert verdict != "allow"


@settings(max_examples=400)
@given(states, st.sampled_from(list(MATRIX)))
def test_more_autonomy_never_denies_what_less_would_run(given_facts, autonomy):
    order = {"deny": 0, "ask": 1, "allow": 2}
    levels = ["readonly", "supervised", "full"]
    verdicts = [order[judge(given_facts, autonomy=level).verdict] for level in levels]
    assert all(a <= b for a, b in itertools.pairwise(verdicts))


@settings(max_examples=400)
@given(states, policies, st.sampled_from(["ask", "deny"]))
def test_a_policy_rule_only_ever_narrows(given_facts, rules, verdict):
    order = {"deny": 0, "ask": 1, "allow": 2}
    rule = PolicyRule(id="r", when=When(), verdict=verdict, reason="x")
    before = decide(given_facts, rules, Setting(source="chat")).verdict
    after = decide(given_facts, policy(autonomy=rules.autonomy, rules=(rule,)), Setting(source="chat")).verdict
    assert order[after] <= max(order[before], order[verdict])


KNOWN = ("shell", "file_read", "file_write", "webhook_send")


@pytest.mark.parametrize(
    ("when", "told"),
    [
        ({"tool": "shel"}, "there is no tool 'shel'. Did you mean shell?"),
        ({"tool": ["file_read", "file_wirte"]}, "there is no tool 'file_wirte'. Did you mean file_write"),
        ({"tool": "Shell"}, "there is no tool 'Shell'. Did you mean shell?"),
        ({"tool": "shell*"}, "there is no tool 'shell*'"),
        ({"tool": ""}, "there is no tool ''"),
        ({"lane": "D"}, "there is no lane 'D'. There are: A, B, C."),
        ({"lane": ["A", "b"]}, "there is no lane 'b'"),
        ({"source": "chats"}, "there is no source 'chats'. Did you mean chat?"),
        ({"risk": "R4"}, "there is no risk 'R4'. There are: R0"),
        ({"lane": []}, "length >= 1"),
        ({"source": []}, "length >= 1"),
        ({"risk": []}, "length >= 1"),
        ({"path": "/etc/passwd"}, "the path '/etc/passwd'"),
        ({"path": "../x"}, "the path '../x'"),
        ({"path": "./x"}, "the path './x'"),
        ({"path": "notes/"}, "the path 'notes/'"),
        ({"path": "notes//x"}, "the path 'notes//x'"),
        ({"path": "*.pem"}, "the path '*.pem'"),
        ({"path": "a/*/b"}, "the path 'a/*/b'"),
        ({"path": "**/a/b"}, "the path '**/a/b'"),
        ({"path": "**/a/**"}, "the path '**/a/**'"),
        ({"path": ["a", "**"]}, "the path '**'"),
        ({"path": ""}, "the path ''"),
        ({"command": "/usr/bin/git"}, "the command '/usr/bin/git'"),
        ({"command": "git push"}, "the command 'git push'"),
        ({"command": ""}, "the command ''"),
        ({"domain": "https://example.com/"}, "the domain 'https://example.com/'"),
        ({"domain": "example.com:443"}, "the domain 'example.com:443'"),
        ({"domain": "exa*mple.com"}, "the domain 'exa*mple.com'"),
        ({"domain": "*"}, "the domain '*'"),
    ],
)
def test_a_rule_that_could_never_apply_is_a_fault(tmp_path, when, told):
    good = {"id": "good", "when": {"tool": "shell"}, "verdict": "ask", "reason": "r"}
    bad = {"id": "no-shell", "when": when, "verdict": "deny", "reason": "r"}
    (tmp_path / "p.json").write_text(json.dumps({"version": 1, "rules": [good, bad]}))
    loaded = load_policies(tmp_path, KNOWN)
    assert loaded.broken.startswith("policies/p.json: rule 'no-shell': ")
    assert told in loaded.broken


@pytest.mark.parametrize(
    "when",
    [
        {"tool": "webhook_send"}, {"path": "."}, {"path": "a b.txt"}, {"path": "a/**"}, {"path": "**/.env"},
        {"path": "..a"}, {"domain": "*.example.com"}, {"domain": "Example.COM"}, {"domain": "::1"},
        {"command": "g++"}, {"source": "job"}, {"lane": ["A", "B"], "risk": ["R3"]}, {"path": "日本/x"},
    ],
)  # fmt: skip
def test_a_rule_that_may_apply_is_not_a_fault(tmp_path, when):
    rule = {"id": "x", "when": when, "verdict": "deny", "reason": "r"}
    (tmp_path / "p.json").write_text(json.dumps({"version": 1, "rules": [rule]}))
    assert not load_policies(tmp_path, KNOWN).broken


class TestPolicyFiles:
    def test_files_are_read_in_order_and_hashed(self, tmp_path):
        (tmp_path / "b.json").write_text('{"version":1,"rules":[{"id":"b","when":{},"verdict":"ask","reason":"r"}]}')
        (tmp_path / "a.json").write_text('{"version":1,"rules":[{"id":"a","when":{},"verdict":"deny","reason":"r"}]}')
        loaded = load_policies(tmp_path, KNOWN)
        assert [rule.id for rule in loaded.rules] == ["a", "b"]
        assert not loaded.broken
        (tmp_path / "a.json").write_text('{"version":1,"rules":[]}')
        assert load_policies(tmp_path, KNOWN).hash != loaded.hash

    def test_no_folder_means_no_rules(self, tmp_path):
        assert load_policies(tmp_path / "none", KNOWN).rules == ()

    @pytest.mark.parametrize(
        "text",
        [
            "{", '{"version":2,"rules":[]}', '{"version":1}', '{"version":1,"rules":[{"id":"x"}]}',
            '{"version":1,"rules":[{"id":"x","when":{"tol":"a"},"verdict":"deny","reason":"r"}]}',
            '{"version":1,"rules":[{"id":"x","when":{},"verdict":"allow","reason":"r"}]}',
            '{"version":1,"version":1,"rules":[]}',
            '{"version":1,"rules":[{"id":"x","when":{"lane":"Z"},"verdict":"deny","reason":"r"}]}',
        ],
    )  # fmt: skip
    def test_a_broken_file_is_named(self, tmp_path, text):
        (tmp_path / "p.json").write_text(text)
        assert "policies/p.json" in load_policies(tmp_path, KNOWN).broken

    def test_what_is_not_a_plain_file_is_a_fault_and_never_read(self, tmp_path):
        os.mkfifo(tmp_path / "pipe.json")
        (tmp_path / "zero.json").symlink_to("/dev/zero")
        with (tmp_path / "big.json").open("wb") as file:
            file.truncate(1 << 32)
        assert load_policies(tmp_path, KNOWN).broken.count("not a regular file") == 3

    def test_two_rules_of_one_id_are_a_fault(self, tmp_path):
        rule = '{"id":"x","when":{},"verdict":"deny","reason":"r"}'
        (tmp_path / "p.json").write_text(f'{{"version":1,"rules":[{rule},{rule}]}}')
        assert "already used" in load_policies(tmp_path, KNOWN).broken


async def test_who_may_not_run_rm_is_told_what_deletes_files(sample):
    refused = await sample().call("shell", command="rm -r build && ls")
    assert "Delete files with file_delete" in refused.result.output
