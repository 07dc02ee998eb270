"""Labels of workspace files: they last as long as the content, and a command is never told fewer than the truth."""

import os
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coilclaw.gate import labelled
from coilclaw.gate.command import read_command
from coilclaw.gate.labels import FileLabels
from coilclaw.gate.reading import named_paths
from coilclaw.packets.ids import utc_now
from coilclaw.packets.labels import is_untrusted, join_labels, split_label, untrusted_only
from coilclaw.store.database import Database

EVIL, BAD = "untrusted:evil.example", "untrusted:bad.example"


class Place:
    """A workspace with its labels."""

    def __init__(self, db, workspace, clock):
        self.db, self.root = db, workspace
        self.labels = FileLabels(db, workspace, clock)

    def write(self, path, text, *labels):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)
        if labels:
            self.mark(labels, path)

    def mark(self, labels, *paths):
        looked = self.labels.look(paths)
        self.db.write_now(lambda tx: self.labels.mark(tx, looked, labels))

    def of(self, path):
        return self.labels.labels_of(path)

    def command(self, text):
        return self.labels.labels_for_command(read_command(text))


@pytest.fixture
def place(db, tmp_path, clock):
    workspace = tmp_path / "ws"
    workspace.mkdir()
    return Place(db, workspace, clock)


# Labels together


SOURCES = st.sampled_from(["a", "b.example", "c:8080", "mcp/x", ""])
LABELS = st.one_of(st.sampled_from(["owner", "internal", "odd"]), SOURCES.map(lambda name: f"untrusted:{name}"))


@given(st.lists(LABELS), st.lists(LABELS))
def test_joining_keeps_every_source_whatever_the_order(left, right):
    joined = join_labels([*left, *right])
    assert joined == join_labels([*right, *left, *right])
    if left and right:
        assert joined == join_labels([join_labels(left), join_labels(right)])
    assert untrusted_only([joined]) == untrusted_only([*left, *right])
    assert is_untrusted(joined) == any(is_untrusted(label) for label in [*left, *right])


def test_a_joined_label_comes_apart_again():
    assert split_label(join_labels([EVIL, "owner", BAD, EVIL])) == (BAD, EVIL)
    assert join_labels([]) == "internal"
    assert join_labels(["owner", "owner"]) == "owner"
    assert join_labels(["owner", "internal"]) == "internal"
    assert split_label("untrusted:") == ("untrusted:unknown",)


# Files


def test_an_unlabelled_file_is_the_owners(place):
    place.write("a.txt", "mine")
    assert place.of("a.txt") == ()
    assert place.command("cat a.txt") == ()


def test_a_label_holds_until_the_content_is_another(place):
    place.write("a.txt", "from the web", EVIL, BAD)
    assert place.of("a.txt") == (BAD, EVIL)
    os.utime(place.root / "a.txt", (1, 1))
    assert place.of("a.txt") == (BAD, EVIL)
    (place.root / "a.txt").write_text("the owner's own words")
    assert place.of("a.txt") == ()
    (place.root / "a.txt").write_text("from the web")
    assert place.of("a.txt") == (BAD, EVIL), "what comes back comes back with its label"


def test_only_untrusted_labels_are_kept_each_by_itself(place):
    place.write("a.txt", "text", "owner", "internal", join_labels([EVIL, BAD]))
    assert place.of("a.txt") == (BAD, EVIL)
    place.write("b.txt", "else", "owner", "internal")
    assert place.of("b.txt") == ()


def test_a_renamed_copied_or_linked_file_keeps_the_label(place):
    place.write("a.txt", "from the web", EVIL)
    (place.root / "a.txt").rename(place.root / "b.txt")
    os.link(place.root / "b.txt", place.root / "c.txt")
    (place.root / "d.txt").write_text("from the web")
    (place.root / "e.txt").symlink_to("d.txt")
    assert [place.of(name) for name in ("b.txt", "c.txt", "d.txt", "e.txt")] == [(EVIL,)] * 4
    assert place.of("a.txt") == ()


def test_an_empty_file_says_nothing_about_other_empty_files(place):
    place.write("a.txt", "", EVIL)
    place.write("__init__.py", "")
    assert place.of("a.txt") == (EVIL,)
    assert place.of("__init__.py") == ()


def test_a_folder_bears_what_is_below_it(place):
    place.write("notes/web/a.txt", "from the web", EVIL)
    place.write("notes2/b.txt", "other", BAD)
    assert place.of("notes") == (EVIL,)
    assert place.of("") == place.of(".") == (BAD, EVIL)
    assert place.of("notes/web/b.txt") == ()


def test_a_labelled_folder_labels_everything_in_it_until_the_owner_vouches(place):
    place.write("node_modules/x/index.js", "x")
    place.mark((EVIL,), "node_modules")
    assert place.of("node_modules/x/index.js") == (EVIL,)
    assert place.of("node_modules2") == ()
    place.db.write_now(lambda tx: place.labels.forget(tx, place.labels.vouched("node_modules")))
    assert place.of("node_modules/x/index.js") == ()


def test_a_file_too_large_to_read_counts_until_it_changes(place):
    with (place.root / "big").open("wb") as file:
        file.truncate(labelled.MOST_BYTES + 1)
    place.mark((EVIL,), "big")
    assert place.of("big") == (EVIL,)
    with (place.root / "big").open("ab") as file:
        file.write(b"x")
    assert place.of("big") == ()


def test_what_will_be_written_is_labelled_before_it_is_there_and_the_old_content_stays_labelled(place):
    place.write("a.txt", "old from the web", EVIL)
    place.db.write_now(lambda tx: place.labels.mark(tx, place.labels.expected("a.txt", b"new from the web"), [EVIL]))
    assert place.of("a.txt") == (EVIL,)
    (place.root / "a.txt").write_text("new from the web")
    assert place.of("a.txt") == (EVIL,)


def test_while_an_action_may_write_anywhere_everything_is_labelled(place):
    place.write("a.txt", "mine")
    place.db.write_now(lambda tx: place.labels.hold(tx, "act_1", [EVIL, "internal"]))
    place.db.write_now(lambda tx: place.labels.hold(tx, "act_2", [EVIL]))
    assert place.labels.held("act_1") == (EVIL,)
    assert place.of("a.txt") == place.command("cat a.txt") == (EVIL,)
    place.db.write_now(lambda tx: place.labels.release(tx, "act_1"))
    assert place.of("a.txt") == (EVIL,), "the other one has not ended"
    place.db.write_now(lambda tx: place.labels.release(tx, "act_2"))
    assert place.of("a.txt") == ()


def test_outside_the_workspace_nothing_is_labelled(place, tmp_path):
    (tmp_path / "outside.txt").write_text("from the web")
    place.write("a.txt", "from the web", EVIL)
    assert place.of("../outside.txt") == ()
    place.mark((EVIL,), "../outside.txt")
    assert [row.path for row, _ in place.labels.standing(10)] == ["a.txt"]


def test_what_the_runtime_alone_writes_is_not_labelled(place):
    place.write("audit/log", "text")
    place.write(".git/config", "text")
    place.mark((EVIL,), "audit/log", ".git/config", ".git")
    assert place.labels.standing(10) == []


def test_vouching_takes_the_labels_of_the_same_bytes_too(place):
    place.write("a.txt", "from the web", EVIL)
    place.write("b.txt", "from the web", BAD)
    place.write("c.txt", "something else", BAD)
    place.db.write_now(lambda tx: place.labels.forget(tx, place.labels.vouched("a.txt")))
    assert [place.of(name) for name in ("a.txt", "b.txt", "c.txt")] == [(), (), (BAD,)]


@pytest.mark.slow
def test_more_than_can_be_looked_at_is_untrusted_as_a_whole(place):
    names = [f"f{number}" for number in range(labelled.MOST_PATHS + 1)]
    for name in names:
        (place.root / name).write_text(name)
    place.mark((EVIL,), *names[:-1])
    assert place.command("make") == (EVIL,)
    place.mark((BAD,), names[-1])
    assert place.command("make") == (labelled.WORKSPACE,)
    assert place.of(names[-1]) == (BAD,), "a file by its name can still be told"


def test_too_many_files_at_once_label_the_workspace(place):
    names = [f"f{number}" for number in range(labelled.MOST_PATHS + 1)]
    place.write("mine.txt", "mine")
    place.mark((EVIL,), *names)
    assert place.of("mine.txt") == (EVIL,)


@pytest.mark.slow
def test_labels_nothing_bears_any_more_go_when_there_are_many(place):
    for number in range(2100):
        (place.root / "a.txt").write_text(f"version {number}")
        looked = place.labels.look(["a.txt"])
        place.db.submit(lambda tx, looked=looked: place.labels.mark(tx, looked, [EVIL]))
    place.mark((EVIL,), "a.txt")
    place.mark((EVIL,), "a.txt")
    assert len(place.labels.standing(5000)) <= 2001
    assert place.of("a.txt") == (EVIL,)


# Commands


@pytest.fixture
def mixed(place):
    place.write("web/evil.txt", "from the web\n", EVIL)
    place.write("bad.txt", "from another\n", BAD)
    place.write("mine.txt", "mine\n")
    place.write("own/a.txt", "mine too\n")
    return place


@pytest.mark.parametrize(
    "command",
    [
        "cat mine.txt",
        "cat mine.txt | head -n 3 | wc -l",
        "ls own",
        "ls -la own/",
        "cat own/*.txt",
        "grep -n foo mine.txt own/a.txt",
        "head -5 < mine.txt",
        "echo hello > fresh.txt",
        "diff mine.txt own/a.txt 2>&1",
        "sort mine.txt; date; pwd",
        "cat /etc/hostname",
        "wc -l nothing.txt",
    ],
)
def test_a_plain_command_is_told_by_what_it_names(mixed, command):
    assert mixed.command(command) == ()


@pytest.mark.parametrize(
    ("command", "labels"),
    [
        ("cat web/evil.txt", (EVIL,)),
        ("cat mine.txt web/evil.txt bad.txt", (BAD, EVIL)),
        ("head -5 < bad.txt", (BAD,)),
        ("ls web", (EVIL,)),
        ("cat web/*", (EVIL,)),
        ("cat web/e?il.txt", (EVIL,)),
        ("ls", (BAD, EVIL)),
        ("ls; cat mine.txt", (BAD, EVIL)),
        ("echo *", (BAD, EVIL)),
        ("grep -r foo", (BAD, EVIL)),
        ("grep -fbad.txt mine.txt", (BAD, EVIL)),
        ("grep -nfbad.txt mine.txt", (BAD, EVIL)),
        ("sort -nobad.txt mine.txt", (BAD,)),
        ("grep --regexp=x web/evil.txt", (BAD, EVIL)),
        ("date -f bad.txt", (BAD,)),
        ("date --fil=bad.txt", (BAD, EVIL)),
        ("wc --files0-from=mine.txt", (BAD, EVIL)),
        ("rg foo mine.txt", (BAD, EVIL)),
        ("echo more >> bad.txt", (BAD,)),
        ("cat ./own/../bad.txt", (BAD,)),
        ("cat '' 'bad.txt'", (BAD,)),
        ('cat "b"ad.txt', (BAD,)),
        ("cat b{ad,}.txt", (BAD, EVIL)),
        ("cat b$(echo ad).txt", (BAD, EVIL)),
        ("cd web; cat evil.txt", (BAD, EVIL)),
        ("> cat sed p bad.txt", (BAD, EVIL)),
        ("X=1 cat mine.txt", (BAD, EVIL)),
        ("python3 own/a.py", (BAD, EVIL)),
        ("cp mine.txt x", (BAD, EVIL)),
        ("mv bad.txt x", (BAD, EVIL)),
        ("cat /proc/self/cwd/bad.txt", (BAD, EVIL)),
        ("cat ../ws/bad.txt", (BAD,)),
        ("cat ..", (BAD, EVIL)),
        ("cat mine.txt\ncat bad.txt", (BAD, EVIL)),
        ("cat mine.txt )", (BAD, EVIL)),
        ("./cat mine.txt", (BAD, EVIL)),
    ],
)
def test_a_command_is_never_told_fewer_labels_than_it_could_have_read(mixed, command, labels):
    assert mixed.command(command) == labels


def test_links_below_a_folder_may_lead_anywhere(mixed):
    (mixed.root / "own" / "link").symlink_to("../bad.txt")
    assert mixed.command("cat own/*") == (BAD, EVIL)
    assert mixed.command("ls own") == (BAD, EVIL)
    assert mixed.command("cat own/link") == (BAD,)


def test_a_link_that_leads_out_may_lead_anywhere_in_a_box(mixed):
    (mixed.root / "here").symlink_to("/proc/self/cwd")
    assert mixed.command("cat here/bad.txt") == (BAD, EVIL)


def test_a_stale_label_does_not_taint_commands(mixed):
    (mixed.root / "bad.txt").write_text("rewritten by the owner")
    (mixed.root / "web" / "evil.txt").unlink()
    assert mixed.command("make") == ()


WORDS = st.sampled_from(
    [
        "a",
        "b",
        "d/c",
        "d",
        "*",
        "d/*",
        "-n",
        "-r",
        "-e",
        "x",
        "-fa",
        "./a",
        "d/../b",
        "'a'",
        '"b"',
        "a*",
        "?",
        "-",
        "--",
    ]
)
PROGRAMS = st.sampled_from(["cat", "grep", "head", "wc", "ls", "tail -n 2", "sort", "nl", "diff", "tac", "cut -c 1-9"])
COMMANDS = st.lists(
    st.tuples(PROGRAMS, st.lists(WORDS, max_size=4)).map(lambda each: " ".join([each[0], *each[1]])),
    min_size=1,
    max_size=3,
).flatmap(lambda parts: st.sampled_from([" | ", "; ", " && ", " || "]).map(lambda join: join.join(parts)))


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(command=COMMANDS)
def test_whatever_a_plain_command_prints_of_a_labelled_file_was_told(place, command):
    """Run for real: a secret word of a labelled file in the output means its label was among those told."""
    (place.root / "d").mkdir(exist_ok=True)
    secrets = {"a": "alpha7261", "b": "beta8811", "d/c": "gamma5530"}
    for path, word in secrets.items():
        (place.root / path).write_text(f"x {word}\n")
        place.mark((f"untrusted:{word}",), path)
    told = place.command(command)
    ran = subprocess.run(
        ["bash", "-c", command], cwd=place.root, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20
    )
    for word in secrets.values():
        if word in ran.stdout + ran.stderr:
            assert f"untrusted:{word}" in told, command


@given(st.text(max_size=60))
def test_any_text_is_read_without_failing(text):
    facts = read_command(text)
    named = named_paths(facts)
    assert named is None or set(facts.reads) <= set(named) or any(c in "*?[" for c in text)


class Files(RuleBasedStateMachine):
    """Files are written, moved, marked and vouched for in any order; a model says who wrote what."""

    NAMES = st.sampled_from(["a", "b", "d/a", "d/b"])
    CONTENTS = st.sampled_from([b"first content", b"second content", b"third content"])
    MARKS = st.sampled_from([EVIL, BAD])

    @initialize()
    def start(self):
        import tempfile
        from pathlib import Path

        self.folder = tempfile.TemporaryDirectory()
        root = Path(self.folder.name)
        (root / "ws" / "d").mkdir(parents=True)
        self.root = root / "ws"
        self.db = Database(root / "db", root / "locks")
        self.labels = FileLabels(self.db, self.root, utc_now)
        self.files = {}
        self.tainted = {}
        """Content to the labels it bears."""
        self.marked = {}
        """Path to the contents it was labelled with."""

    @rule(name=NAMES, content=CONTENTS)
    def owner_writes(self, name, content):
        (self.root / name).write_bytes(content)
        self.files[name] = content

    @rule(name=NAMES, content=CONTENTS, label=MARKS)
    def tainted_write(self, name, content, label):
        self.db.write_now(lambda tx: self.labels.mark(tx, self.labels.expected(name, content), [label]))
        (self.root / name).write_bytes(content)
        self.files[name] = content
        self.tainted.setdefault(content, set()).add(label)
        self.marked.setdefault(name, set()).add(content)
        looked = self.labels.look([name])
        self.db.write_now(lambda tx: self.labels.mark(tx, looked, [label]))

    @rule(name=NAMES)
    def vouch(self, name):
        rows = self.labels.vouched(name)
        self.db.write_now(lambda tx: self.labels.forget(tx, rows))
        for content in {*self.marked.pop(name, ()), self.files.get(name)}:
            self.tainted.pop(content, None)
            for contents in self.marked.values():
                contents.discard(content)

    @rule(old=NAMES, new=NAMES)
    def rename(self, old, new):
        if old in self.files and old != new:
            (self.root / old).rename(self.root / new)
            self.files[new] = self.files.pop(old)

    @rule(name=NAMES)
    def remove(self, name):
        if self.files.pop(name, None) is not None:
            (self.root / name).unlink()

    @invariant()
    def every_file_bears_what_its_content_bears(self):
        for name, content in getattr(self, "files", {}).items():
            assert set(self.labels.labels_of(name)) == self.tainted.get(content, set()), name

    def teardown(self):
        if hasattr(self, "db"):
            self.db.close()
            self.folder.cleanup()


TestFiles = pytest.mark.slow(Files.TestCase)
TestFiles.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
