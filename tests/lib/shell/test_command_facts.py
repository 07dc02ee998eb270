"""What the facts of a command hold: programs, paths, limits, and when the parser is loaded."""

import subprocess
import sys

import pytest

from coilclaw.lib.shell import table as command_table
from coilclaw.lib.shell.command import MAX_BYTES, read_command
from coilclaw.lib.shell.programs import git_verb, harmless, lines, program


@pytest.mark.parametrize(
    ("command", "programs"),
    [
        ("ls -la", ("ls",)),
        ("echo hi; cd x; true; [ -f y ]", ()),
        ("sudo -u me env A=1 nice -n 5 timeout 9 /usr/bin/rm x", ("sudo", "env", "nice", "timeout", "rm")),
        ("find . -exec grep x {} + | xargs -0 wc -l", ("find", "grep", "xargs", "wc")),
        ("sh -c 'git status | head'", ("sh", "git", "head")),
        ("eval 'make test'", ("eval", "make")),
        ("command ls; command -v rm; exec cat x", ("command", "ls", "exec", "cat")),
        ("f() { sort x; }; f; g", ("sort", "g")),
        ("g; g() { ls; }", ("g", "ls")),
        ("false && h() { ls; }; h", ("ls", "h")),
        ("ls() { cat x; }; ls", ("cat",)),
        ("busybox sh -c 'rm x'", ("busybox", "sh", "rm")),
        ("echo $(date) `id` <(w)", ("date", "id", "w")),
        (".venv/bin/python3.11 x.py", ("python3.11",)),
        ("git commit -m 'rm -rf /' # dd", ("git",)),
        ("echo 'rm x' | sh", ("sh", "rm")),
        ("trap 'rm x' EXIT", ("trap", "rm")),
        ("time -p make", ("time", "make")),
        ("CC=clang make", ("clang", "make")),
    ],
)
def test_programs_are_named_behind_wrappers_and_inside_text(command: str, programs: tuple[str, ...]) -> None:
    assert set(read_command(command).programs) == set(programs)


@pytest.mark.parametrize(
    ("command", "reads", "writes"),
    [
        ("cat a ~/b ../c /etc/d", {"a", "~/b", "../c", "/etc/d"}, set()),
        ("cat < in > out 2>> err", {"in"}, {"out", "err"}),
        ("cmd &> all >| more", set(), {"all", "more"}),
        ("cp -r a b c", {"a", "b"}, {"c"}),
        ("cp -t dst a b", {"a", "b"}, {"dst"}),
        ("mv a b", set(), {"a", "b"}),
        ("rm -f a b; rmdir c; touch d; mkdir -p e/f; truncate -s 0 g", set(), {"a", "b", "c", "d", "e/f", "g"}),
        ("ls | tee -a x y", set(), {"x", "y"}),
        ("chmod 644 a; chown me b; chmod -R u+w c", set(), {"a", "b", "c"}),
        ("ln -s a b", {"a"}, {"b"}),
        ("install -m 755 a b", {"a"}, {"b"}),
        ("sed -i 's/a/b/' f g", set(), {"f", "g"}),
        ("sed -n 's/a/b/w out' f", {"f"}, {"out"}),
        ("sed 's/a/b/' f", {"f"}, set()),
        ("awk '{print > \"o.txt\"}' f", {"f"}, {"o.txt"}),
        ("grep -rn a/b src", {"src"}, set()),
        ("grep -e a/b -f pats src", {"pats", "src"}, set()),
        ("tar xzf a.tgz -C out", {"a.tgz"}, {"out"}),
        ("tar xf a.tar", {"a.tar"}, {"."}),
        ("tar czf a.tgz src", {"src"}, {"a.tgz"}),
        ("git clone https://example.com/a/b.git", set(), {"b"}),
        ("git clone https://example.com/a/b.git dst", set(), {"dst"}),
        ("patch -p1 f < d.diff", {"d.diff"}, {"f"}),
        ("unzip a.zip -d out", {"a.zip"}, {"out"}),
        ("rsync -a src/ dst/", {"src/"}, {"dst/"}),
        ("curl -s -o a.json https://example.com/x", set(), {"a.json"}),
        ("wget -q https://example.com/x.zip", set(), {"x.zip"}),
        ("mytool --config=/etc/x ./a b", {"/etc/x", "./a"}, set()),
        ("python3 src/x.py", {"src/x.py"}, set()),
        ("./run.sh ../in", {"./run.sh", "../in"}, set()),
        ('cat "$HOME/x" ${PWD}/y', {"~/x", "./y"}, set()),
        ("d=/etc; cat $d/x > $d.log", {"/etc/x"}, {"/etc.log"}),
        ("for f in a b; do cat $f > $f.out; done", {"a", "b"}, {"a.out", "b.out"}),
        ("cat > f <<'E'\n/etc/passwd\nE", set(), {"f"}),
        ("tar czf b-$(date +%F).tgz src", {"src"}, {"b-*.tgz"}),
        ("sh -c 'cat /etc/passwd > /tmp/x'", {"/etc/passwd"}, {"/tmp/x"}),
        ("echo /etc/passwd", set(), set()),
        ("ls > /dev/null 2>&1", set(), set()),
        ("sort -o out in", {"in"}, {"out"}),
        ("find src -name x -fprint list", {"src"}, {"list"}),
        ("dd of=x", set(), {"x"}),
        ("gcc -O2 -Iinc -oapp main.c", {"inc", "main.c"}, {"app"}),
        ("openssl enc -in a -out b", {"a"}, {"b"}),
        ("patch -d sub a fix.patch", {"sub", "sub/fix.patch", "fix.patch"}, {"sub", "sub/a", "a"}),
        ("gzip -c a; gzip b", {"a"}, {"b"}),
        ("ssh-keygen -lf a; ssh-keygen -f b", {"a"}, {"b"}),
        ("yq -i .a b; yq .a c", {"c"}, {"b"}),
        ("jq --rawfile x a . b", {"a", "b"}, set()),
        ("git -C sub rm a", {"sub"}, {"sub/a", "a"}),
        ("git checkout main -- a; git restore b", set(), {"a", "b"}),
        ("curl -F f=@a -d @b --json @c https://example.com", {"a", "b", "c"}, set()),
        ("ln a b; ln -s c d", {"a", "c"}, {"a", "b", "d"}),
        ("ln -s a b; touch b/x", {"a"}, {"b", "b/x", "a/x"}),
        ("cat src/$x", {"src"}, set()),
        ("echo a b | xargs cat", {"a", "b"}, set()),
        ("mytool -o a --out-dir=b c", set(), {"a", "b"}),
        ("mytool --write a b", set(), {"a", "b"}),
    ],
)
def test_paths_are_told_as_written(command: str, reads: set[str], writes: set[str]) -> None:
    facts = read_command(command)

    assert (set(facts.reads), set(facts.writes)) == (reads, writes)


def test_every_line_of_the_table_can_be_read_and_no_program_has_two() -> None:
    text = command_table.LOOKERS + command_table.WRITERS + command_table.BUILDERS
    text += command_table.WRAPPING + command_table.GIT
    heads = [line.partition(": ")[0] for line in text.replace("\n  ", "; ").replace("\n ", " ").strip().split("\n")]
    names = [name for head in heads for name in head.split()]

    assert sorted(names) == sorted(name for name in lines() if name)
    assert all(program(name) for name in names)
    assert all(git_verb(name.removeprefix("git/")) for name in names if name.startswith("git/"))
    assert {program(name).operands for name in names if program(name)} <= {  # pyright: ignore[reportOptionalMemberAccess]
        "read", "write", "first", "last", "move", "text", "guess",
    }  # fmt: skip


def test_what_is_called_harmless_writes_no_operand_and_is_not_told_to_execute() -> None:
    for name in harmless():
        facts = read_command(f"{name} policies/x")

        assert facts.writes == ()
        assert "COMMAND_EXECUTES" not in {reason.code for reason in facts.opaque}


def test_a_changed_directory_is_one_more_place_a_relative_path_may_lead_to() -> None:
    facts = read_command("cd /etc && cat passwd > copy; (cd sub; touch x); touch y")

    assert {"/etc", "/etc/passwd", "passwd"} <= set(facts.reads)
    assert {"/etc/copy", "copy", "/etc/sub/x", "x", "/etc/y", "y"} == set(facts.writes)


@pytest.mark.parametrize(
    "command",
    [
        "cd a && cat ../x", "cd a/b && ls && cat ../x", "(cd a && cat ../x)", "cd a && cd b && cat ../x && ls",
        "cd /ws/a && cat ../x", "ls && cd ./a && cat ../x | head", "sh -c 'cd a && cat ../x'",
    ],
)  # fmt: skip
def test_a_path_up_from_a_directory_that_is_certain_counts_from_there_alone(command: str) -> None:
    facts = read_command(command)
    paths = {*facts.reads, *facts.writes}

    assert "../x" not in paths
    assert any(path.endswith("/../x") for path in paths)


@pytest.mark.parametrize(
    "command",
    [
        "cd a; cat ../x", "cd a || cat ../x", "cd a && ls; cat ../x", "cd a && ls || cat ../x", "cd .. && cat ../x",
        "cd a/../.. && cat ../x", "cd $A && cat ../x", "{ cd a; true; } && cat ../x", "! cd a && cat ../x",
        "cd a\ncat ../x", "if cd a; then cat ../x; fi", "cd - && cat ../x", "cd && cat ../x", "cd a b && cat ../x",
        "cd() { true; }; cd a && cat ../x", "eval 'cd a' && cat ../x", "cd a; ls && cat ../x", "cat ../x && cd a",
        "ls || cd a && cat ../x", "cd a && cd ../.. && cat ../x", "pushd a && cat ../x", "cd a & cat ../x",
        "cd a | ls && cat ../x", "for i in a; do cd $i; done; cat ../x", "cd a >y && cat ../x",
        "if ls; then cd() { true; }; fi; cd a && cat ../x", "shopt -s cdable_vars; a=/b; cd a && cat ../x",
    ],
)  # fmt: skip
def test_a_path_up_from_a_directory_that_may_not_be_reached_counts_from_the_start_too(command: str) -> None:
    assert "../x" in read_command(command).reads


def test_the_text_is_carried_along_unchanged() -> None:
    assert read_command(" ls  ").text == " ls  "


@pytest.mark.parametrize("command", ["ls \0", "x" * (MAX_BYTES + 1), "é" * MAX_BYTES, "ls \ud800", "|" * 3000])
def test_text_beyond_the_limits_is_not_read(command: str) -> None:
    facts = read_command(command)

    assert {reason.code for reason in facts.opaque} == {"COMMAND_UNPARSED"}


@pytest.mark.parametrize("command", ["", " ", "\n", "# x", "ls\n\n", "ls;"])
def test_nothing_much_is_nothing_to_worry_about(command: str) -> None:
    facts = read_command(command)

    assert facts.blocked == facts.opaque == ()


def test_broken_text_still_shows_the_patterns_in_its_readable_parts() -> None:
    facts = read_command("rm -rf / )")

    assert facts.blocked
    assert "command.unparsed" in {reason.rule for reason in facts.opaque}


@pytest.mark.parametrize(
    "command",
    [
        "(" * 400 + "ls" + ")" * 400,
        "$(" * 300 + "ls" + ")" * 300,
        "if true; then " * 200 + "ls; " + "fi; " * 200,
        "eval " * 500 + "ls",
        "sudo " * 500 + "ls",
        "{a,b}" * 12,
        "x=aaaa; " + "x=$x$x; " * 60 + "echo $x > $x",
        "for a in {1..12}; do " * 6 + "ls; " + "done; " * 6,
        "a; " * 5000,
        "a && " * 5000 + "a",
    ],
)
def test_what_is_nested_too_deeply_or_too_long_is_opaque_and_never_an_error(command: str) -> None:
    assert read_command(command).opaque


def test_importing_the_reader_does_not_load_the_parser() -> None:
    code = "import sys, coilclaw.lib.shell.command as c; assert 'tree_sitter' not in sys.modules; "
    code += "c.read_command('ls'); "
    code += "assert 'tree_sitter' in sys.modules"

    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=280).returncode == 0


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("rm -rf /", "command.destructive.remove-root"),
        ("rm -rf *", "command.destructive.remove-all"),
        ("mv * /tmp", "command.destructive.remove-all"),
        ("git clean -fdx", "command.destructive.remove-all"),
        ("git rm -rf .", "command.destructive.remove-all"),
        ("rsync -a --delete /tmp/x/ .", "command.destructive.remove-all"),
        ("mkfs.ext4 /dev/sda", "command.destructive.filesystem"),
        ("dd if=a of=b", "command.destructive.dd"),
        (":(){ :|:& };:", "command.destructive.fork-bomb"),
        ("sudo poweroff", "command.destructive.power"),
        ("chmod -R 777 /", "command.destructive.permissions"),
        ("chown -R a b", "command.destructive.ownership"),
        ("curl x | sh", "command.destructive.download-run"),
        ("echo > /dev/sda", "command.destructive.device"),
        ("echo > /etc/passwd", "command.destructive.system-file"),
        ("find / -delete", "command.destructive.find-delete"),
        ("kill -9 -1", "command.destructive.kill-all"),
    ],
)
def test_the_rule_names_the_pattern(command: str, rule: str) -> None:
    assert rule in {reason.rule for reason in read_command(command).blocked}


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("python3 -c x", "COMMAND_INTERPRETER"),
        ("git -c core.pager=x log", "COMMAND_EXECUTES"),
        ("tail -f x", "COMMAND_UNBOUNDED"),
        ("$X", "COMMAND_OPAQUE"),
        ("echo '", "COMMAND_UNPARSED"),
    ],
)
def test_the_code_names_the_kind_of_blind_spot(command: str, code: str) -> None:
    assert code in {reason.code for reason in read_command(command).opaque}
