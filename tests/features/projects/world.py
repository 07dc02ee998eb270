"""A home with a project in a folder of its own, and conversations in both."""

import subprocess

from coilclaw.gate.turn import Turn
from coilclaw.packets.ids import new_id
from coilclaw.store.projects import put_project
from coilclaw.store.threads import ensure_thread


def folder(home, name="code", **files):
    """A folder of the owner's with some files, by their names."""
    made = home.folder / "own" / name
    made.mkdir(parents=True)
    for path, text in files.items():
        (made / path).write_text(text)
    return made


def add(home, path, *, name="", vouched=True):
    """A project as `project add` leaves it."""
    project_id = new_id("prj", home.app.clock())
    home.app.db.write_now(
        lambda tx: put_project(
            tx,
            home.app.clock,
            project_id=project_id,
            name=name or path.name,
            path=str(path),
            inode=path.stat().st_ino,
            vouched=vouched,
        )
    )
    return project_id


def thread(home, project_id, thread_id="conv_project"):
    home.app.db.write_now(
        lambda tx: ensure_thread(tx, home.app.clock, thread_id, "cli", "", project=project_id or None)
    )
    return thread_id


def turn(home, project_id, *, source="chat", labels=()):
    """A turn of a conversation that works in a project; in the workspace when there is none."""
    return Turn(new_id("turn", home.app.clock()), thread(home, project_id, f"conv_{project_id}"), source, labels)


def git(path, *args):
    """git as the owner runs it, without the owner's own configuration."""
    done = subprocess.run(
        ["git", "-c", "user.name=O", "-c", "user.email=o@example.org", "-c", "init.defaultBranch=main", *args],
        cwd=path,
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def repository(path):
    """Make the folder a repository with everything in it committed."""
    git(path, "init", "-q")
    git(path, "add", "-A")
    git(path, "commit", "-qm", "first", "--allow-empty")
