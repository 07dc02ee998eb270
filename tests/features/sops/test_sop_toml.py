"""SOP.toml: what holds, and every fault told in one pass with the step it stands in."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.features.sops.sop import MAX_FILE_BYTES, freeze, thaw
from coilclaw.features.sops.sop_toml import Checking, read_sop
from coilclaw.tools.builtin import builtin_tools

TOOLS = builtin_tools()
SEED = """
name = "daily-check"
description = "Run a daily workspace check"

[[steps]]
id = "list"
kind = "tool"
tool = "file_list"
args = { path = "." }

[[steps]]
id = "summarize"
kind = "agent"
prompt = "Summarize the file list from the previous step."

[[steps]]
id = "approval"
kind = "approval"
prompt = "Continue to write report?"

[[steps]]
id = "write"
kind = "tool"
tool = "file_write"
args = { path = "daily-check.txt", content_from = "summarize" }
"""


def read(text, name="x"):
    return read_sop(text if isinstance(text, bytes) else text.encode(), name, TOOLS, redact)


def redact(text):
    return text.replace("hunter2", "[hidden]")


def faults(*steps, head='name = "x"\n'):
    text = head + "".join(f"[[steps]]\n{step}\n" for step in steps)
    return [str(fault) for fault in read(text).faults]


LIST = 'id = "list"\nkind = "tool"\ntool = "file_list"'


def test_the_documented_form_holds():
    made = read(SEED, "daily-check").sop
    assert made is not None
    assert [(step.id, step.kind) for step in made.steps] == [
        ("list", "tool"),
        ("summarize", "agent"),
        ("approval", "approval"),
        ("write", "tool"),
    ]
    assert made.steps[3].args == {"path": "daily-check.txt", "content_from": "summarize"}
    assert all(step.on_failure == "abort" for step in made.steps)
    assert thaw(freeze(made)) == made


def test_conditions_limits_and_retries_hold():
    text = f"""name = "x"
[[steps]]
{LIST}
on_failure = "continue"
retry = 2
timeout = 30
[[steps]]
id = "ok"
kind = "agent"
prompt = "Say something about it."
content_from = "list"
when = "list.success"
timeout = 2.5
[[steps]]
id = "bad"
kind = "approval"
prompt = "It failed. Go on?"
when = "list.failed"
on_failure = "continue"
[[steps]]
id = "none"
kind = "tool"
tool = "time"
when = "bad.skipped"
"""
    made = read(text)
    assert made.faults == ()
    assert made.sop.steps[0].retry == 2
    assert made.sop.steps[1].timeout == 2.5


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ('id = "a"\nkind = "tool"\ntool = "file_lst"', ["step a", "no tool 'file_lst'", "file_list"]),
        ('id = "a"\ntype = "tool"\ntool = "time"', ["step a", "no key 'type'", "mean kind", "kind is missing"]),
        ('kind = "tool"\ntool = "time"', ["step 1", "id is missing"]),
        ('id = "a"\nkind = "tol"\ntool = "time"', ["step a", "kind"]),
        ('id = "A b"\nkind = "tool"\ntool = "time"', ["step A b", "id"]),
        ('id = "a\\n"\nkind = "tool"\ntool = "time"', ["step a", "id"]),
        ('id = "a"\nkind = "tool"', ["step a", "a tool step needs a tool"]),
        (
            'id = "a"\nkind = "agent"\nprompt = "x"\ntools = ["tme"]',
            ["tools: there is no tool 'tme'", "time"],
        ),
        ('id = "a"\nkind = "tool"\ntool = "time"\ntools = []', ["a tool step takes no tools"]),
        ('id = "a"\nkind = "agent"', ["step a", "an agent step needs a prompt"]),
        ('id = "a"\nkind = "agent"\nprompt = "  "', ["needs a prompt"]),
        ('id = "a"\nkind = "approval"', ["step a", "an approval step needs a message"]),
        ('id = "a"\nkind = "approval"\nprompt = "x"\ntimeout = 5', ["an approval step takes no timeout"]),
        ('id = "a"\nkind = "approval"\nprompt = "x"\nretry = 1', ["takes no retry"]),
        ('id = "a"\nkind = "tool"\ntool = "time"\nprompt = "x"', ["a tool step takes no prompt"]),
        ('id = "a"\nkind = "agent"\nprompt = "x"\ntool = "time"', ["an agent step takes no tool"]),
        ('id = "a"\nkind = "tool"\ntool = "file_read"\nargs = {}', ["step a", "do not match file_read", "path"]),
        ('id = "a"\nkind = "tool"\ntool = "file_read"\nargs = {path = 5}', ["do not match file_read"]),
        ('id = "a"\nkind = "tool"\ntool = "file_read"\nargs = {path = "x", pth = "y"}', ["do not match", "pth"]),
        (
            'id = "a"\nkind = "tool"\ntool = "file_read"\nargs = {path = 2026-01-01}',
            ["args.path", "write it as a string"],
        ),
        ('id = "a"\nkind = "tool"\ntool = "file_read"\nargs = {path = nan}', ["args:", "finite"]),
        ('id = "a"\nkind = "tool"\ntool = "file_read"\nargs = {path = 9007199254740993}', ["2^53"]),
        ('id = "a"\nkind = "tool"\ntool = "file_read"\nargs = "x"', ["step a", "args"]),
        ('id = "a"\nkind = "tool"\ntool = "time"\nretry = 6', ["step a", "retry"]),
        ('id = "a"\nkind = "tool"\ntool = "time"\nretry = -1', ["retry"]),
        ('id = "a"\nkind = "tool"\ntool = "time"\ntimeout = 0', ["timeout"]),
        ('id = "a"\nkind = "tool"\ntool = "time"\ntimeout = 99999', ["timeout"]),
        ('id = "a"\nkind = "tool"\ntool = "time"\ntimeout = inf', ["timeout"]),
        ('id = "a"\nkind = "tool"\ntool = "time"\non_failure = "ignore"', ["on_failure"]),
        ('id = "a"\nkind = "tool"\ntool = "time"\nwhen = "list"', ["write STEP.success"]),
        ('id = "a"\nkind = "tool"\ntool = "time"\nwhen = "list.maybe"', ["write STEP.success"]),
        ('id = "a"\nkind = "tool"\ntool = "time"\nwhen = "a.success"', ["when names the step itself"]),
        ('id = "a"\nkind = "tool"\ntool = "time"\nwhen = "lst.success"', ["no such step"]),
        ('id = "a"\nkind = "tool"\ntool = "file_write"\nargs = {path = "p", content_from = 3}', ["id of a step"]),
        ('id = "a"\nkind = "tool"\ntool = "time"\nargs = {content_from = "b"}', ["takes no content"]),
        ('id = "a"\nkind = "tool"\ntool = "time"\ncontent_from = "b"', ["takes no content_from", "in args"]),
        ('id = "a"\nkind = "agent"\nprompt = "x"\ncontent_from = "b"', ["no such step"]),
        ('id = "a"\nkind = "tool"\ntool = "sop_approvl"', ["no tool"]),
        ('id = "a"\nkind = "agent"\nprompt = "' + "x" * 16_001 + '"', ["prompt"]),
    ],
)
def test_each_fault_is_reported_with_its_step(step, words):
    told = " ".join(faults(step))
    assert told
    for word in words:
        assert word in told


def test_what_names_another_step_must_name_an_earlier_one():
    later = 'id = "a"\nkind = "tool"\ntool = "file_write"\nargs = {path = "p", content_from = "list"}'
    assert any("comes later" in fault for fault in faults(later, LIST))
    assert faults(LIST, later) == []
    when = 'id = "a"\nkind = "tool"\ntool = "time"\nwhen = "list.success"'
    assert any("comes later" in fault for fault in faults(when, LIST))
    question = 'id = "q"\nkind = "approval"\nprompt = "Well?"'
    of_question = later.replace('"list"', '"q"')
    assert any("leaves no content" in fault for fault in faults(question, of_question))
    both = later.replace("content_from", 'content = "x", content_from')
    assert any("both given" in fault for fault in faults(LIST, both))


def test_a_condition_that_can_never_hold_is_a_fault():
    step = 'id = "a"\nkind = "tool"\ntool = "time"\nwhen = "list.{}"'
    assert any('on_failure = "continue"' in fault for fault in faults(LIST, step.format("failed")))
    assert any("never skipped" in fault for fault in faults(LIST, step.format("skipped")))
    assert faults(LIST + '\non_failure = "continue"', step.format("failed")) == []


def test_the_same_id_twice_is_a_fault():
    assert [fault for fault in faults(LIST, LIST) if "is used twice" in fault]


def test_all_faults_are_reported_at_once():
    told = faults('id = "a"\nkind = "tool"\ntool = "nope"', 'id = "b"\nkind = "agent"', "strange = 1", head="nam = 1\n")
    for words in ("'nam'", "name is missing", "step a", "step b", "step 3", "'strange'"):
        assert any(words in fault for fault in told), words


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"name = ", "not TOML"),
        (b'name = "x"\nname = "x"', "not TOML"),
        (b"\xff\xfe", "not UTF-8"),
        (b'name = "x"', "no steps"),
        (b'name = "x"\nsteps = []', "no steps"),
        (b'name = "x"\nsteps = [1]', "a step is a table"),
        (b'name = "x"\nsteps = 5', "no steps"),
        (b"#" * (MAX_FILE_BYTES + 1), "at most"),
        (b"x = " + b"[" * 100_000, "not TOML"),
        (b'name = "x"\n' + b'[[steps]]\nid = "a"\n' * 51, "at most 50"),
        (b'name = "x"\ndescription = "' + b"d" * 501 + b'"', "description"),
        (b"", "name is missing"),
    ],
)
def test_a_file_that_is_wrong_as_a_whole_is_told_so(data, words):
    made = read(data)
    assert made.sop is None
    assert any(words in str(fault) for fault in made.faults), made.faults


def test_the_name_must_be_the_folders():
    assert any("folder is called 'y'" in str(fault) for fault in read(f'name = "x"\n[[steps]]\n{LIST}', "y").faults)


def test_a_secret_in_the_file_is_a_fault_that_does_not_repeat_it():
    told = faults('id = "a"\nkind = "agent"\nprompt = "log in with hunter2"')
    assert told == ["step a: this contains a secret; refer to it by the name of its environment variable."]
    for step in ('id = "a"\nkind = "tool"\ntool = "hunter2"', 'id = "hunter2"\nkind = 5', 'id = "a"\nhunter2 = 1'):
        told = faults(step)
        assert told
        assert "hunter2" not in " ".join(told)


def test_nothing_in_a_fault_moves_the_terminal():
    told = faults('id = "a"\nkind = "tool"\ntool = "\\u001b[31mx"', 'id = "b"\n"\\u202ekey" = 1\nkind = "agent"')
    assert told
    assert all(fault.isprintable() for fault in told)


@given(st.text(max_size=400))
def test_whatever_stands_in_the_file_is_read_or_told(text):
    made = read(f'name = "x"\n{text}'.encode("utf-8", "replace"))
    assert (made.sop is None) == bool(made.faults)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
_KEYS = st.sampled_from(
    ["id", "kind", "tool", "args", "prompt", "content_from", "when", "on_failure", "timeout", "retry", "odd"]
)


@given(
    st.lists(st.dictionaries(_KEYS, _VALUES | st.sampled_from(["tool", "agent", "time", "a"]), max_size=6), max_size=4)
)
def test_steps_of_any_shape_are_read_or_told(steps):
    checking = Checking("x", TOOLS, redact)
    made = checking.sop({"name": "x", "steps": steps})
    assert (made is None) == bool(checking.faults)
    if made is not None:
        assert msgspec.json.decode(freeze(made), type=type(made)) == made


# Depth

TOOL = 'name = "x"\n[[steps]]\nid = "a"\nkind = "tool"\ntool = "file_read"\n'


@pytest.mark.parametrize(
    "args",
    [
        '[steps.args]\npath = "x"\n' + "a." * 3000 + "b = 1\n",
        "[steps.args." + "a." * 20_000 + "b]\nc = 1\n",
        "[steps.args]\n" + '"a" . ' * 9000 + "b = 1\n",
        "[steps.args]\n" + '"\\"".' * 9000 + "b = 1\n",
        "args = { " + (".".join("a" * 60) + " = { ") * 250 + "b = 1" + " }" * 251 + "\n",
    ],
)
def test_what_is_nested_too_deeply_is_a_fault_and_never_a_crash(args):
    found = read(TOOL + args)
    assert found.sop is None
    assert "nested too deeply" in str(found.faults[0])


def test_words_and_dots_in_a_prompt_are_no_depth():
    prompt = "Look at a.b.c and 1.2.3. " * 500 + "." * 500
    assert faults(f'id = "a"\nkind = "agent"\nprompt = "{prompt}"') == []
