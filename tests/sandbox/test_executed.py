"""The table of names that other programs execute on their own, in every spelling that counts as the same."""

import pytest

from coilclaw.sandbox.executed import executed_part

SAME_NAME = [
    "sitecustomize.py",
    "lib/sitecustomize/__init__.py",
    "lib/sitecustomize.cpython-311-x86_64-linux-gnu.so",
    "__pycache__/usercustomize.cpython-311.pyc",
    "lefthook-local.yml",
    ".lefthook.toml",
    "a/.lefthook/pre-commit/run.sh",
    ".config/lefthook.yml",
    "mise.production.toml",
    "mise/config.toml",
    ".config/mise.toml",
    ".huskyrc.json",
    ".simple-git-hooks.cjs",
    "jupyter_server_config.py",
    "ipython_config.json",
    ".envrc:stream",
    "p/.EnvRC. ::$DATA",
]
SAME_KIND = [
    ".venv/pyvenv.cfg",
    ".venv/bin/activate",
    ".venv/bin/Activate.fish",
    "venv/bin/python3.11",
    "venv/Scripts/python.exe",
    "p/.helix/languages.toml",
    "project.ipr",
    ".gitea/workflows/a.yml",
    ".forgejo/workflows/a.yml",
    ".woodpecker.yaml",
    "azure-pipelines.yml",
    "Jenkinsfile",
    ".iex.exs",
    ".ocamlinit",
    ".bazelrc",
    ".agents/skills/a/SKILL.md",
    ".config/fish/conf.d/a.fish",
    ".config/git/config",
    "python311._pth",
    "public/.htaccess",
    "public/.user.ini",
]
ORDINARY = [
    "customize.py",
    "test_sitecustomize.py",
    "docs/mise.md",
    "lefthook.md",
    "promise.toml",
    "bin/activate_account.py",
    "bin/deploy",
    "python3.11",
    "src/bin/main.rs",
    ".config/app.toml",
    "jupyter_notes.md",
    "helix/a.py",
    "a:b",
    ":",
]


@pytest.mark.parametrize("path", [*SAME_NAME, *SAME_KIND])
def test_a_name_counts_in_every_form_its_program_knows(path: str) -> None:
    assert executed_part(path)


@pytest.mark.parametrize("path", ORDINARY)
def test_ordinary_neighbours_do_not_count(path: str) -> None:
    assert executed_part(path) == ""
