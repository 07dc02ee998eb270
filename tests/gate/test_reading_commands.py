"""Commands that certainly only read run unasked, with a workspace they cannot write; whatever is uncertain asks."""

import pytest

from coilclaw.gate import facts
from coilclaw.lib.shell.command import read_command
from coilclaw.packets.card import Answer

READS = [
    "ls", "ls -la src", "git status", "git status --short", "git diff", "git diff HEAD~1 -- a.txt", "git log",
    "git log --oneline -n 5 --format=%H", "git --no-pager show HEAD", "git blame a.txt", "cat a.txt", "cat *.txt",
    "grep -rn x .", "wc -l", "find . -name '*.py'", "find . -type f -newer a.txt", "head -n 5 a.txt",
    "ls | head", "grep -rn x . | sort | uniq -c", "git log --oneline | head -n 3", "cat a.txt; ls", "cat < a.txt",
    "ls 2>/dev/null", "sed -n 1,5p a.txt", "awk '{print $1}' a.txt", "cd src && ls", "rg x", "stat a.txt", "true",
    "LC_ALL=C sort a.txt", "ls && git status", "test -f a.txt && cat a.txt",
    "echo 'rm -rf /'", "echo rm -rf /", "grep -rn 'rm -rf /' .", "python3 --version", "node -v && npm -v", "go version",
    "which python3; python3 -V", "git diff --stat && node --version", "pytest --help | head -n 20", "git --version",
    "git branch", "git branch -a", "git branch --show-current", "git stash list", "git stash show -p 'stash@{0}'",
    "git tag", "git tag -l 'v1*'", "git tag --sort=-v:refname | head -n 3", "git worktree list", "git reflog",
    "git symbolic-ref --short HEAD",
]  # fmt: skip
OTHERS = [
    "cat $X", 'cat "$(ls)"', "cat < $X", "cd $X && ls", "git diff -- $(ls)", "git $X", "grep $X a.txt",
    "echo 'rm -rf /' | sh", "echo 'rm -rf /' > x.sh", 'echo "$(rm -rf /)"', "echo x; rm -rf /", "sh -c 'rm -rf /'",
    "ls > listing", "cat a.txt | tee b", "sort -o b a.txt", "git diff --output=b", "git log > b",
    "git -c core.pager=./x diff", "git diff --ext-diff", "git show --textconv HEAD", "git grep -O x",
    "git diff-files -p --ext-diff", "git diff-index --textconv HEAD", "git diff-tree --ext-diff HEAD",
    "git grep --textconv x", "file -C -m a.txt",
    "GIT_EXTERNAL_DIFF=./x git diff", "PATH=. ls", "git --git-dir=x status",
    "git branch x", "git tag x", "git stash", "git config a.b c", "git st", "git commit -m x", "git add .",
    "find . -fprint b", "find . -name x -exec touch {} ;", "find . -delete", "fd -x touch", "rg --pre ./x y",
    "sed -i s/a/b/ a.txt", "sed -n 'w b' a.txt", "sed -f script.sed a.txt", "awk -f script.awk a.txt",
    "awk 'BEGIN{system(\"touch b\")}'", "awk '{print > \"b\"}' a.txt",
    "tail -f a.txt", "ls &", "xargs cat", "env ls", "timeout 5 ls", "ls\ntouch b", "ls\u00a0x", "ls; touch b",
    "alias ls=touch; ls b", "ls() { touch b; }; ls", "./ls", "bash -c ls", "python3 x.py", "pytest", "make", "./x.sh",
    "python3 --version x.py", "python3 -V -c 1", "node -v x.js", "./node --version", "node --version; node x.js",
    "PATH=. node --version", "node() { touch b; }; node -v", "node -v > b", "touch --version b", "bin/python3 -V",
    "git branch -D x", "git branch --list x -d", "git stash", "git stash pop", "git stash list x", "git tag -d x",
    "git tag -l -d x", "git tag x --list", "git worktree add x", "git reflog expire --all", "git symbolic-ref HEAD x",
    "git branch $X", "git stash $X", "git tag '-l x' y", "git remote -v", "git config --get a.b", "git branch -m a b",
    "git tag --sort=refname x",
]  # fmt: skip


@pytest.fixture
def home(sample):
    made = sample()
    made.owner.answer = Answer(approved=None)
    (made.workspace / "a.txt").write_text("a\n")
    return made


@pytest.mark.parametrize("command", READS)
async def test_a_certain_read_runs_unasked_and_its_box_can_write_nothing(home, command):
    outcome = await home.call("shell", command=command)

    assert (outcome.action.decision.verdict, outcome.action.decision.risk) == ("allow", "R0")
    assert [spec.workspace_writable for spec in home.box.specs] == [False]
    assert home.owner.cards == []


@pytest.mark.parametrize("command", OTHERS)
async def test_whatever_is_not_certainly_a_read_does_not_run_unasked(home, command):
    outcome = await home.call("shell", command=command)

    assert outcome.action.decision.verdict in ("ask", "deny")
    assert outcome.action.decision.risk != "R0"
    assert home.box.specs == []


async def test_a_certain_read_runs_in_readonly_too(sample):
    home = sample(security__autonomy="readonly")

    assert (await home.call("shell", command="git log")).result.success
    assert (await home.call("shell", command="touch b", key="2")).result.code == "AUTONOMY_READONLY"


async def test_a_program_that_is_not_listed_does_not_count_as_a_read(sample):
    home = sample(security__allowed_commands=("cat",))

    assert (await home.call("shell", command="ls")).result.code == "AUTONOMY_DENIES"


async def test_a_read_that_names_domains_asks(home):
    outcome = await home.call("shell", command="cat a.txt", domains=["example.com"])

    assert outcome.action.decision.verdict != "allow"


async def test_a_read_outside_the_workspace_is_denied(home):
    assert (await home.call("shell", command="cat /etc/passwd")).action.decision.verdict == "deny"


@pytest.mark.parametrize("name", sorted(facts.READERS))
def test_a_local_file_cannot_pass_for_a_reading_program(name):
    for command in (f"./{name}", f"bin/{name} a", f"cd bin; ./{name}"):
        assert not facts.only_reads(read_command(command))


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("./x.sh", ("./x.sh",)), ("bash x.sh", ("x.sh",)), ("sh < x.sh", ("x.sh",)), ("python x.py", ("x.py",)),
        ("node a/x.js", ("a/x.js",)), ("make -f a.mk", ("a.mk",)), ("sed -f a.sed b", ("a.sed",)),
        ("make -C a", ("a/Makefile", "Makefile", "a/makefile", "makefile", "a/GNUmakefile", "GNUmakefile")),
        ("npm test", ("package.json",)), ("ninja", ("build.ninja",)),
        ("python -m tool", ("tool.py", "tool/__main__.py")),
        ("cd a && ./x.sh", ("a/./x.sh", "./x.sh")), ("pytest a.py", ()), ("cat a.txt", ()), ("/usr/bin/ls", ()),
    ],
)  # fmt: skip
def test_the_reader_names_the_files_that_a_command_runs(command, names):
    assert read_command(command).executes == names


@pytest.mark.parametrize(
    "command", ["git add -A && git commit -m x", "git stash", "git checkout -b x", "git push", "ls; git reset --hard"]
)
async def test_a_change_of_the_folders_repository_that_its_box_cannot_make_is_not_asked_about(sample, command):
    home = sample()
    refused = await home.call("shell", command=command)

    assert refused.result.code == "GIT_READ_ONLY"
    assert "git_commit" in refused.result.output
    assert home.owner.cards == []


@pytest.mark.parametrize(
    "command",
    [
        "git status", "git stash list", "git branch --contains x", "git tag -n",
        "git init /tmp/x && git -C /tmp/x commit",
        "cd /tmp/x && git commit -m y", "git clone a /tmp/b && cd /tmp/b && git checkout x", "git apply a.patch",
        "git bisect start", "echo git commit",
    ],
)  # fmt: skip
async def test_git_that_may_work_is_decided_like_any_command(sample, command):
    home = sample()

    assert (await home.call("shell", command=command)).result.code != "GIT_READ_ONLY"


async def test_where_there_is_no_repository_git_is_decided_like_any_command(sample):
    home = sample()
    (home.workspace / ".git").rename(home.workspace / "kept")
    assert (await home.call("shell", command="git add .")).result.code != "GIT_READ_ONLY"
