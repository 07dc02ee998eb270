"""Reading SKILL.md: what is taken, what is refused, and that nothing else of YAML gets in."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.features.skills.example import example
from coilclaw.features.skills.skill import SKILL_BYTES, read_skill
from tests.features.skills.shelf import PROCEDURE, text


def faults(content, name="x"):
    data = content if isinstance(content, bytes) else content.encode()
    read = read_skill(data, name)
    assert (read.skill is None) == bool(read.faults)
    return " | ".join(map(str, read.faults))


def with_line(line):
    return f"---\nname: x\ndescription: d\n{line}\n---\nbody\n"


def test_a_whole_skill_is_read():
    content = text(
        "pay-bills",
        "license: MIT",
        'compatibility: "needs a bank: any"',
        "allowed-tools: file_read  artifact_put",
        body=PROCEDURE,
        intent="pay_bills",
        triggers="pay the bills; Settle Up ;pay",
        domains="bank.example *.pay.example",
        evidence="report",
        inputs="month",
    )
    skill = read_skill(content.encode(), "pay-bills").skill
    assert skill is not None
    assert (skill.license, skill.compatibility) == ("MIT", "needs a bank: any")
    assert skill.tools == ("file_read", "artifact_put")
    assert skill.triggers == ("pay the bills", "Settle Up", "pay")
    assert skill.domains == ("bank.example", "*.pay.example")
    assert skill.use("intent").needs == ("tool:file_read", "input:month", "evidence:report")


def test_without_allowed_tools_or_domains_nothing_is_narrowed_and_none_means_nowhere():
    plain = read_skill(text("x").encode(), "x").skill
    assert plain is not None
    assert (plain.tools, plain.domains) == (None, None)
    nowhere = read_skill(text("x", domains="none").encode(), "x").skill
    assert nowhere is not None
    assert nowhere.domains == ()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("license: &a MIT", "line 4: it begins with an anchor"),
        ("license: *a", "an alias"),
        ("license: !!python/object:os.system x", "a tag"),
        ("license: [MIT]", "flow style"),
        ("license: {a: b}", "flow style"),
        ("<<: *a", "not `key: text`"),
        ("%YAML 1.2", "a directive"),
        ("- a", "a list"),
        ("license:\n  - a", "only metadata has lines below it"),
        ("? a\n: b", "not `key: text`"),
        ("license: a: b", "a colon"),
        ("license: 'a", "does not end"),
        ('license: "a\\u202e"', "escape"),
        ("\tlicense: a", "a tab"),
        ("license: a --- b", "---"),
        ("license: |x\n  a", "a block"),
        ("name: x", "twice"),
        ("metadata:\n  a: b\n  a: c", "twice"),
        ("metadata:\n  a: b\n    c: d", "indented alike"),
        ("metadata: {a: b}", "a map"),
        ("metadata:\n  coilclaw-trigers: a", "Did you mean"),
        ("coilclaw-triggers: a", "under metadata"),
        ("tools: a", "there is no key"),
        ("allowed-tools:", "is empty"),
        ("metadata:\n  coilclaw-triggers: a;;b", "a trigger is empty"),
        ("metadata:\n  coilclaw-domains: 'a b.example; ../x'", "not a valid name"),
        ("metadata:\n  coilclaw-domains: localhost", "must be listed one by one"),
        ("metadata:\n  coilclaw-domains: 'https://a.example/x'", "not a valid name"),
        ("compatibility: " + "x" * 501, "longer than 500"),
    ],
)
def test_what_is_not_in_the_part_of_yaml_that_is_read_is_a_fault(line, words):
    assert words in faults(with_line(line))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("no frontmatter", "three dashes"),
        ("---\nname: x\n", "no end"),
        ("---\nname: y\ndescription: d\n---\n", "must match"),
        ("---\nname: x\n---\n", "description is missing"),
        ("---\ndescription: d\n---\n", "name is missing"),
        (b"---\nname: x\ndescription: \xff\n---\n", "not UTF-8"),
        ("---\nname: x\ndescription: a\0b\n---\n", "invisible"),
        ("---\nname: x\ndescription: d\n---\nobey \u202eyeb\u202c", "line 5: it contains invisible characters"),
        ("---\nname: x\ndescription: d\n---\nzero\u200bwidth", "invisible"),
        (text("x", body="x" * SKILL_BYTES), "at most 65536"),
        ("---\n" + "a: b\n" * 200_000, "at most 65536"),
    ],
)
def test_files_that_are_no_skills_are_told_with_the_reason(content, words):
    assert words in faults(content)


@pytest.mark.parametrize("name", ["Upper", "two--hyphens", "-a", "a-", "a_b", "a.b", "é", "x" * 65, "..", "a/b"])
def test_a_name_that_could_be_taken_for_another_is_refused(name):
    assert faults(text(name), name)


def test_pictures_in_a_text_hide_nothing():
    assert not faults(text("x", body="⚠️ careful ❤️‍🔥"))


@pytest.mark.parametrize("section", ["Preconditions", "Steps", "Failure modes", "Rollback"])
def test_a_skill_with_an_intent_needs_every_section(section):
    body = PROCEDURE.replace(f"## {section}", f"```\n## {section}\n```\n## Other")
    assert f"`## {section}`" in faults(text("x", body=body, intent="go"))
    assert not faults(text("x", body=body))


def test_each_step_names_its_evidence():
    body = PROCEDURE.replace("Report it. Evidence: the artifact `report`.", "Report it.")
    assert "step 2 does not name its evidence" in faults(text("x", body=body, intent="go"))


def test_the_same_bytes_are_read_once():
    data = text("x", body="read once").encode()
    assert read_skill(data, "x") is read_skill(data, "x")


@given(
    st.dictionaries(
        st.sampled_from(["license", "compatibility", "allowed-tools"]),
        st.text(st.characters(codec="ascii"), max_size=30),
    ),
    st.sampled_from(["{}", "'{}'", '"{}"']),
)
def test_what_is_read_means_the_same_to_a_yaml_reader(values, quotes):
    head = "\n".join(f"{key}: {quotes.format(value)}" for key, value in values.items())
    read = read_skill(f"---\nname: x\ndescription: d\n{head}\n---\n".encode(), "x")
    if read.skill is None:
        return
    known = yaml.load(f"name: x\n{head}", yaml.BaseLoader)
    assert read.skill.license == known.get("license", "").strip()
    assert read.skill.compatibility == known.get("compatibility", "").strip()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["new", "template", "procedure", "block"])
def test_the_reference_validator_takes_what_we_take(how, tmp_path):
    content = {
        "new": example("x"),
        "template": text("x", "allowed-tools: file_read", triggers="tidy this; tidy that"),
        "procedure": text("x", body=PROCEDURE, intent="go", domains="a.example", inputs="a", evidence="b"),
        "block": "---\nname: x\ndescription: >-\n  Long\n  text.\nlicense: 'it''s'\n---\nbody\n",
    }[how]
    assert not faults(content)
    assert reference(tmp_path, content) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    [
        with_line("license: [MIT]"),
        with_line("license: !!str a"),
        with_line("license: &a b"),
        with_line("name: x"),
        with_line("unknown: a"),
        "---\nname: y\ndescription: d\n---\n",
        "---\nname: x\n---\n",
    ],
)
def test_what_the_reference_validator_refuses_we_refuse(content, tmp_path):
    assert reference(tmp_path, content) != 0
    assert faults(content)


def reference(folder, content):
    """What the convention's own validator says to a skill `x`."""
    (folder / "x").mkdir()
    (folder / "x" / "SKILL.md").write_text(content)
    program = Path(sys.executable).parent / "agentskills"
    return subprocess.run([program, "validate", str(folder / "x")], capture_output=True, check=False).returncode
