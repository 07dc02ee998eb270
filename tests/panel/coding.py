"""Repositories and terminals for stories about coding."""

import time

from tests.features.runner.repo_world import git


def put_repo(house, more="", files=()):
    """Add a repository called `site` to the configuration; its folder."""
    repo = house.folder / "site"
    repo.mkdir()
    git(repo, "init", "-q")
    for name, text in {"README.md": "# Site\n", **dict(files)}.items():
        (repo / name).write_text(text)
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "one")
    with (house.home / "config.toml").open("a") as config:
        config.write(f'\n[repos.site]\npath = "{repo}"\n{more}')
    return repo


def end_sessions(house):
    """End what still runs."""
    for line in house.run("session", "list").splitlines():
        if "RUNNING" in line or "WAITING" in line:
            house.run("session", "stop", line.split("\t")[0])


def shows(w, text, seconds=120):
    """Wait until the terminal shows it."""
    deadline = time.monotonic() + seconds
    while text not in (shown := w.page.locator(".xterm-rows").inner_text()):
        assert time.monotonic() < deadline, shown
        w.page.wait_for_timeout(100)


def types(w, text):
    """Type into the terminal."""
    w.page.locator(".xterm-helper-textarea").focus()
    w.page.keyboard.type(text)
