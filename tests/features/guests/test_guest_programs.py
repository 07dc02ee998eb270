"""The program of a guest: the folders its box gets, what its hash covers, and the common form it may come in."""

import json
import os
from pathlib import Path

import pytest

from coilclaw.config.mcp import McpServer, server_faults
from coilclaw.features.guests.common_form import read_common_form
from coilclaw.features.guests.program import absolute_command, find_program, folder_mounts
from coilclaw.packets.box import BoxMount
from coilclaw.packets.errors import UsageError

PATH = "/usr/bin:/bin"


@pytest.fixture
def program(tmp_path):
    folder = tmp_path / "opt" / "server"
    folder.mkdir(parents=True)
    (folder / "main.py").write_text("one")
    (folder / "part.py").write_text("two")
    return folder


def test_a_script_is_hashed_with_its_folder_and_mounted_read_only(program):
    found = find_program(("sh", str(program / "main.py")), PATH)
    assert [(mount.source, mount.writable) for mount in found.mounts] == [(str(program), False)]
    assert found.argv[1].endswith("/main.py")
    before = found.digest
    (program / "part.py").write_text("three")
    assert find_program(("sh", str(program / "main.py")), PATH).digest != before


@pytest.mark.parametrize("change", ["new", "gone", "mode", "link", "rename"])
def test_every_change_of_its_files_changes_the_hash(program, change):
    def digest():
        return find_program(("sh", str(program / "main.py")), PATH).digest

    before = digest()
    match change:
        case "new":
            (program / ".hidden").write_text("")
        case "gone":
            (program / "part.py").unlink()
        case "mode":
            (program / "part.py").chmod(0o755)
        case "link":
            (program / "link").symlink_to("part.py")
        case "rename":
            (program / "part.py").rename(program / "other.py")
    assert digest() != before


def test_a_program_of_the_system_needs_no_folder_and_one_that_is_missing_is_said(program):
    assert find_program(("true",), PATH).mounts == ()
    with pytest.raises(UsageError, match="there is no program"):
        find_program(("no-such-program-here",), PATH)


def test_a_folder_that_holds_more_than_the_program_is_refused(tmp_path, monkeypatch):
    script = tmp_path / "script"
    script.write_text("")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UsageError, match="more than the program"):
        find_program(("sh", str(script)), PATH)


def test_node_modules_and_virtual_environments_count_whole(tmp_path):
    deep = tmp_path / "a" / "app" / "node_modules" / "pkg" / "dist"
    deep.mkdir(parents=True)
    (deep / "index.js").write_text("")
    found = find_program(("sh", str(deep / "index.js")), PATH)
    assert found.mounts[0].source == str(tmp_path / "a" / "app")
    venv = tmp_path / "b" / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text("")
    (venv / "bin" / "serve").write_text("#!/bin/sh\n")
    (venv / "bin" / "serve").chmod(0o755)
    found = find_program((str(venv / "bin" / "serve"),), PATH)
    assert found.mounts[0].source == str(venv)


def test_words_that_are_files_here_are_spelled_in_full(tmp_path):
    (tmp_path / "srv").mkdir()
    (tmp_path / "srv" / "x.py").write_text("")
    assert absolute_command(("python3", "srv/x.py", "--flag"), str(tmp_path)) == (
        "python3", str(tmp_path / "srv" / "x.py"), "--flag",
    )  # fmt: skip


def test_a_folder_it_may_read_must_exist_and_be_named_without_links(tmp_path):
    tmp_path = Path(os.path.realpath(tmp_path))
    (tmp_path / "docs").mkdir()
    (tmp_path / "link").symlink_to("docs")
    (mount,) = folder_mounts([str(tmp_path / "docs")], [], tmp_path)
    assert (mount.source, mount.writable) == (str(tmp_path / "docs"), False)
    with pytest.raises(UsageError, match="through a link"):
        folder_mounts([str(tmp_path / "link")], [], tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        folder_mounts([str(tmp_path / "no")], [], tmp_path)


@pytest.mark.parametrize("command", ["npx -y some-server", "/usr/bin/uvx server", "pipx run x", "docker run -i x"])
def test_a_program_that_is_fetched_when_it_starts_is_refused(command):
    with pytest.raises(UsageError, match="fetches its program when it starts"):
        find_program(tuple(command.split()), PATH)


def given_to(folder, *, writable):
    return (BoxMount(source=str(folder), at=str(folder), writable=writable),)


@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("word", ["", "/deep", "/x.db"])
def test_what_lies_in_a_granted_folder_is_data_and_no_part_of_the_program(program, tmp_path, word, writable):
    docs = tmp_path / "docs"
    (docs / "deep").mkdir(parents=True)
    (docs / "x.db").write_text("1")
    command = ("python3", str(program / "main.py"), f"{docs}{word}")
    found = find_program(command, PATH, given_to(docs, writable=writable))
    assert [mount.source for mount in found.mounts] == [str(program)]
    assert found.argv[2] == f"{docs}{word}"
    (docs / "deep" / "new.txt").write_text("changed")
    assert find_program(command, PATH, given_to(docs, writable=writable)).digest == found.digest
    elsewhere = (BoxMount(source=str(docs), at="/guest/files0", writable=writable),)
    assert find_program(command, PATH, elsewhere).argv[2] == f"/guest/files0{word}"


@pytest.mark.parametrize("words", [(), ("-u",)])
def test_the_script_of_an_interpreter_is_its_program_wherever_it_lies(program, words):
    command = ("python3", *words, str(program / "main.py"), str(program))
    found = find_program(command, PATH, given_to(program, writable=False))
    (program / "part.py").write_text("three")
    assert find_program(command, PATH, given_to(program, writable=False)).digest != found.digest


@pytest.mark.parametrize(
    "command",
    [
        "uv run {folder}/server.py", "uv --directory {folder} run server.py", "poetry run python {folder}/server.py",
        "node --import {folder}/a.js {folder}/server.mjs", "npm --prefix {folder} start", "nohup {folder}/server",
        "own-launcher {folder}/server.py",
    ],
)  # fmt: skip
def test_what_a_launcher_runs_is_its_program_wherever_it_lies(tmp_path, command):
    folder, tools = tmp_path / "granted", tmp_path / "bin"
    folder.mkdir()
    tools.mkdir()
    for name in ("server.py", "a.js", "server.mjs", "server"):
        (folder / name).write_text("one")
    words = tuple(command.format(folder=folder).split())
    (tools / words[0]).write_text("#!/bin/sh\n")
    (tools / words[0]).chmod(0o755)

    def digest():
        return find_program(words, str(tools), given_to(folder, writable=False)).digest

    before = digest()
    for name in ("server.py", "server.mjs", "server"):
        (folder / name).write_text("two")
    assert digest() != before


def test_a_link_that_leads_out_of_a_granted_folder_is_no_data(program, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "link").symlink_to(program)
    command = ("notes", str(docs / "link"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "notes").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "notes").chmod(0o755)
    path = f"{tmp_path / 'bin'}:{PATH}"
    before = find_program(command, path, given_to(docs, writable=True)).digest
    (program / "part.py").write_text("three")
    assert find_program(command, path, given_to(docs, writable=True)).digest != before


# The common form


def test_the_common_form_is_read_and_what_is_left_out_is_said():
    text = json.dumps(
        {
            "mcpServers": {
                "notes": {"command": "notes-server", "args": ["-q"], "env": {"API_KEY": "s3cret"}, "disabled": False},
                "web": {"url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer s3cret"}},
            }
        }
    )
    server, left = read_common_form("notes", text)
    assert (server.command, server.env) == (("notes-server", "-q"), ("API_KEY",))
    assert any("disabled" in line for line in left)
    assert any("coilclaw secret set API_KEY" in line for line in left)
    web, _ = read_common_form("web", text)
    assert (web.kind, web.headers) == ("http", {"Authorization": "WEB_AUTHORIZATION"})
    assert "s3cret" not in repr((server, web, left))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"mcpServers": {"notes": {"args": [1]}}}', "nonsense"])
def test_a_form_without_the_server_is_refused_with_the_reason(text):
    with pytest.raises(UsageError):
        read_common_form("notes", text)


@pytest.mark.parametrize(
    ("server", "key"),
    [
        (McpServer(), "command"),
        (McpServer(command=("x",), url="https://a.example"), "url"),
        (McpServer(kind="http", url="https://a.example/mcp", command=("x",)), "command"),
        (McpServer(kind="http", url="https://user:pw@a.example/mcp"), "url"),
        (McpServer(kind="http", url="https://a.example/mcp", headers={"Host": "X"}), "headers"),
        (
            McpServer(
                kind="http", url="https://a.example/mcp", oauth_hosts=("b.example",), headers={"Authorization": "X"}
            ),
            "headers",
        ),
    ],
)
def test_a_table_that_makes_no_sense_is_refused_with_its_key(server, key):
    assert [found for found, _ in server_faults("notes", server)] == [key]


def test_a_file_that_moves_to_the_next_folder_changes_the_hash(tmp_path):
    one, two = tmp_path / "opt" / "a", tmp_path / "opt" / "b"
    for folder in (one, two):
        folder.mkdir(parents=True)
    (one / "main.py").write_text("")
    (one / "z.py").write_text("code")
    (two / "zz.py").write_text("")

    def digest():
        return find_program(("sh", str(one), str(two)), PATH).digest

    before = digest()
    (one / "z.py").rename(two / "z.py")
    assert digest() != before


@pytest.mark.parametrize(
    "word",
    ["/proc/self/root/etc/hostname", "/proc/self/cwd/x.py", "/sys/kernel", "/dev/stdin", "/usr/../proc/1", "a\0b"],
)
@pytest.mark.parametrize("first", [True, False])
def test_what_the_kernel_makes_up_and_nul_bytes_are_no_program(word, first):
    with pytest.raises(UsageError, match="not a file that can be run as a program"):
        find_program((word,) if first else ("sh", word), PATH)


def test_a_link_into_proc_is_no_program(tmp_path):
    (tmp_path / "link").symlink_to("/proc/self/cwd")
    (tmp_path / "file").symlink_to("/proc/self/status")
    with pytest.raises(UsageError, match="not a file that can be run as a program"):
        find_program(("sh", str(tmp_path / "file")), PATH)
