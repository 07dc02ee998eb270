"""git on files that a box could write, or that others made: always in a box, with a repository of our own around them.

A checkout's own `.git` says which program to run for a diff, a filter or a file watcher. So no command here reads it:
files are compared, and objects packed, from a repository that the script makes, whose configuration is ours.
"""

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw.packets.box import BoxLimits, BoxMount, BoxResult, BoxSpec, BrokerLimits
from coilclaw.packets.errors import ToolError
from coilclaw.packets.text import one_line
from coilclaw.runtime.boxed import run_until_stopped

if TYPE_CHECKING:
    from coilclaw.packets.ports import Box
    from coilclaw.runtime.runtime import Runtime

OBJECTS = "/repository/objects"
"""Where a box has the objects of the cache. It is the same for every checkout, and names nothing outside."""
INDEX = "/repository/index"
SOURCE = "/source"
"""Where a box has the folder that commits come from."""
SECONDS = 600.0
MEMORY = 2 << 30
FILE = 8 << 30
LEAST_WRITTEN = 1 << 30
"""What other programs write to the disk meanwhile counts too, so a smaller limit would be a matter of luck."""
_FIXED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": "/dev/null",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_ADVICE": "0",
    "LC_ALL": "C.UTF-8",
}

# Arguments: the object format, the folder of objects below the source. Input: commits to pack, and with a ^ those that
# the cache has. What arrives in own/objects/pack was read object by object and link by link by index-pack.
PACK = f"""
set -eu
umask 077
git init -q --bare --template= --object-format="$1" own
git init -q --bare --template= --object-format="$1" /tmp/from
printf '%s\\n' {OBJECTS} >own/objects/info/alternates
GIT_OBJECT_DIRECTORY={SOURCE}/"$2" GIT_ALTERNATE_OBJECT_DIRECTORIES={OBJECTS} \
    git --git-dir=/tmp/from pack-objects --quiet --revs --thin --stdout |
    git --git-dir=own -c pack.writeReverseIndex=false index-pack --strict --fix-thin --stdin >/dev/null
"""

# Arguments: the address. Input: packed references to what the cache has.
FETCH = f"""
set -eu
umask 077
git init -q --bare --template= own
printf '%s\\n' {OBJECTS} >own/objects/info/alternates
cat >own/packed-refs
git --git-dir=own -c fetch.unpackLimit=1 -c fetch.fsckObjects=true -c gc.auto=0 -c pack.writeReverseIndex=false \
    fetch -q --no-tags --no-write-fetch-head --no-auto-maintenance -- "$1" \
    '+refs/heads/*:refs/heads/*' '+refs/tags/*:refs/tags/*'
git --git-dir=own for-each-ref --format='%(objectname) %(refname)' refs/heads refs/tags
git --git-dir=own ls-remote --symref -- "$1" HEAD | awk '$1 == "ref:" {{ print "HEAD", $2 }}'
"""

# Arguments: object format, branch, commit, remote. Input: the references it has of the repository.
CHECKOUT = f"""
set -eu
git init -q --template= --object-format="$1" --initial-branch="$2" .
printf '%s\\n' {OBJECTS} >.git/objects/info/alternates
cat >.git/packed-refs
git config user.name CoilClaw
git config user.email coilclaw@localhost
git config gc.auto 0
git config maintenance.auto false
if [ -n "$4" ]; then
    git config remote.origin.url "$4"
    git config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*'
fi
git update-ref "refs/heads/$2" "$3"
git read-tree --reset -u HEAD
"""

_COMPARE = f"""
set -eu
own=/tmp/own
mkdir -p $own/objects/info $own/refs/heads
printf 'ref: refs/heads/none\\n' >$own/HEAD
printf '%s\\n' {OBJECTS} >$own/objects/info/alternates
printf '[core]\\nrepositoryformatversion = 1\\nbare = false\\n[extensions]\\nobjectformat = %s\\n' "$1" >$own/config
cp -p {INDEX} $own/index
export GIT_DIR=$own GIT_WORK_TREE="$PWD"
git add --intent-to-add --ignore-errors -- . 2>/dev/null || :
base=$2 most=$3
shift 3
compared() {{
    git diff --find-renames --no-color --no-ext-diff --no-textconv --ignore-submodules=all "$@" >/tmp/told
}}
# A file that nobody can read must not hide the others: without an entry in the index it counts as deleted.
told() {{
    compared "$@" 2>/dev/null || {{
        find . -path ./.git -prune -o -type f ! -readable -printf '%P\\0' | git update-index --force-remove -z --stdin
        compared "$@"
    }}
    head -c "$most" /tmp/told
}}
"""

# Arguments: object format, base, bytes of output.
CHANGES = f"""{_COMPARE}
told --raw --numstat -z --no-abbrev "$base" --
"""

# Arguments: as above, then paths.
DIFF = f"""{_COMPARE}
told "$base" -- "$@"
"""

# Arguments: object format, base, last commit, `log` or `names`, bytes of output. A secret that one commit adds and the
# next removes leaves with both, so every commit is read. A log leaves out headers such as signatures, and believes
# what a commit says of its encoding, so the log is followed by the commits themselves.
LEAVING = f"""
set -eu
own=/tmp/own
mkdir -p $own/objects/info $own/refs/heads
printf 'ref: refs/heads/none\\n' >$own/HEAD
printf '%s\\n' {OBJECTS} >$own/objects/info/alternates
printf '[core]\\nrepositoryformatversion = 1\\nbare = true\\n[extensions]\\nobjectformat = %s\\n' "$1" >$own/config
export GIT_DIR=$own
if ! git merge-base --is-ancestor "$2" "$3"; then
    echo "the branch does not begin at the commit it was made from" >&2
    exit 1
fi
what=$4
if [ "$what" = log ]; then
    set -- "$2" "$3" "$5" -p --text --format='commit %H%n%an <%ae>%n%cn <%ce>%n%B'
else
    set -- "$2" "$3" "$5" --name-only -z --format=
fi
range="$1..$2" most=$3
shift 3
git log --no-color --no-ext-diff --no-textconv --no-mailmap --no-show-signature --no-notes --no-renames -m "$@" \\
    "$range" -- >/tmp/told
if [ "$what" = log ]; then
    git rev-list "$range" -- | git cat-file --batch >>/tmp/told
fi
head -c "$most" /tmp/told
"""

# Arguments: the path. Input: the file. A link in the checkout leads nowhere outside the box.
COPY = """
set -eu
rm -rf -- "$1"
mkdir -p -- "$(dirname -- "$1")"
umask 077
cat >"$1"
"""


# git adds the word "get", which printf must not see.
_HELPER = "!f() { printf 'username=x-access-token\\npassword=%s\\n' \"$REPO_TOKEN\"; }; f"


def with_token(token: str) -> tuple[tuple[str, str], ...]:
    """The environment by which git presents a token where it is asked for one; no command line holds it."""
    if not token:
        return ()
    helper = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "credential.helper", "GIT_CONFIG_VALUE_0": _HELPER}
    return (*helper.items(), ("REPO_TOKEN", token))


def object_format(sha: str) -> str:
    """The kind of repository that an object belongs to, as git calls it."""
    return "sha256" if len(sha) == 64 else "sha1"


def script_spec(
    script: str, *words: str, workspace: Path, mounts: tuple[BoxMount, ...], writable: bool, given: bytes = b"",
    seconds: float = SECONDS, output: int = 1 << 20, written: int = 1 << 30, domains: tuple[str, ...] = (),
    environment: tuple[tuple[str, str], ...] = (),
) -> BoxSpec:  # fmt: skip
    """A script of ours in a box."""
    return BoxSpec(
        command=("/bin/sh", "-c", script, "git", *words),
        workspace=str(workspace),
        cwd=str(workspace),
        workspace_writable=writable,
        environment=(*_FIXED.items(), *environment),
        domains=domains,
        broker=BrokerLimits(request_seconds=seconds, idle_seconds=120.0, bytes_in=FILE, bytes_out=256 << 20),
        mounts=mounts,
        stdin=given,
        limits=BoxLimits(
            wall_seconds=seconds,
            cpu_seconds=math.ceil(seconds) * (os.cpu_count() or 1),
            memory_bytes=MEMORY,
            output_bytes=output,
            kept_bytes=output,
            file_bytes=FILE,
            write_bytes=max(written, LEAST_WRITTEN),
            address_space=False,
        ),
    )


async def run_script(app: "Runtime", spec: BoxSpec, *, what: str, code: str, box: "Box | None" = None) -> bytes:
    """What a script wrote; a ToolError with that code when it did not succeed."""
    result = await run_until_stopped(app, spec, box)
    if result is None:
        raise ToolError("ESTOP is engaged.", code="ESTOP", begun=False)
    if result.end == "exited" and result.exit_code == 0:
        return result.stdout
    if result.end == "write_limit" or b"No space left" in result.stderr or b"Disk quota" in result.stderr:
        raise ToolError(
            f"{what}: there is not enough room on the disk.", remedy=MORE_ROOM, code="DISK_FULL", begun=False
        )
    raise ToolError(f"{what}: {_last_words(app, result)}", code=code, begun=False)


MORE_ROOM = "Remove sessions (`coilclaw session rm`), run `coilclaw repo prune`, or raise runner.disk_bytes."


def _last_words(app: "Runtime", result: BoxResult) -> str:
    """The end of what it said: that is where the reason is. Anybody may have written it."""
    if result.end != "exited":
        return result.reason
    told = app.redact((result.stderr or result.stdout).decode("utf-8", "replace"))
    lines = [line for line in told.splitlines() if line.strip()]
    return f"{one_line(lines[-1])[:300]}." if lines else f"it ended with {result.exit_code}."
