"""Plugins: read without running anything, run from the copy that was approved, answered with one JSON object."""

import json
import os

import pytest

from coilclaw.config.mcp import McpServer
from coilclaw.features.guests.manifest import read_plugin
from coilclaw.features.guests.owner_guests import OwnerGuests
from coilclaw.features.guests.plugin_files import copy_of, install, write_example
from coilclaw.features.guests.store import load_guest
from coilclaw.gate.turn import Turn
from coilclaw.packets.box import BoxResult
from coilclaw.packets.errors import UsageError
from coilclaw.sandbox.box import open_box
from coilclaw.sandbox.fake_box import FakeBox, finished

ECHO = """\
name = "echo-plugin"
version = "0.1.0"
capabilities = ["tool"]
[[tools]]
name = "echo"
description = "Echoes input"
command = "./echo-plugin"
schema = { type = "object" }
"""
"""As the document that asked for plugins writes it."""


def plugin(folder, manifest=ECHO, program='#!/bin/sh\ncat >/dev/null\necho \'{"success": true, "output": "hi"}\'\n'):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.toml").write_text(manifest)
    (folder / "echo-plugin").write_text(program)
    (folder / "echo-plugin").chmod(0o755)
    return folder


async def let_in(home, folder, **classes):
    offer = install(home.app, folder)
    guests = OwnerGuests(home.app)
    await guests.read_plugin(offer.name)
    call = guests.approve_call(offer.name, classes or {"echo": "reads"}, offer.digest)
    made = await home.call(call.tool, Turn("turn_h", "", "gateway"), **json.loads(call.args_bytes))
    assert made.result.success, made.result.output
    home.app.refresh()
    return offer


async def test_a_plugin_and_a_server_never_share_a_name(sample, tmp_path):
    server = McpServer(command=("true",))
    home = sample(mcp__servers={"echo-plugin": server})
    with pytest.raises(UsageError, match="there is an MCP server echo-plugin"):
        install(home.app, plugin(tmp_path / "p"))
    assert not OwnerGuests(home.app).is_plugin("echo-plugin")
    home = sample()
    offer = await let_in(home, plugin(tmp_path / "q"))
    for call in (OwnerGuests(home.app).look_call, OwnerGuests(home.app).add_call):
        with pytest.raises(UsageError, match="there is a plugin echo-plugin"):
            call(offer.name, server)


def test_what_an_installation_that_was_cut_off_leaves_is_no_plugin(sample, tmp_path):
    home = sample()
    plugin(home.app.home.plugins_dir / ".new-echo-plugin")
    assert OwnerGuests(home.app).names() == []


def test_the_plugin_of_the_document_is_read_as_written(tmp_path):
    offer = read_plugin(plugin(tmp_path / "p"))
    assert (offer.name, offer.grant.kind, [tool.original for tool in offer.tools]) == (
        "echo-plugin",
        "plugin",
        ["echo"],
    )


async def test_what_is_let_in_already_is_not_asked_about_again(sample, tmp_path):
    home = sample()
    offer = await let_in(home, plugin(tmp_path / "p"))
    guests = OwnerGuests(home.app)
    program = copy_of(home.app, offer) / "echo-plugin"
    program.write_text("damaged")
    assert guests.is_let_in("echo-plugin", {"echo": "reads"})
    assert "damaged" not in program.read_text()
    assert not guests.is_let_in("echo-plugin", {"echo": "writes"})
    await guests.disable("echo-plugin")
    assert not guests.is_let_in("echo-plugin", {"echo": "reads"})
    await let_in(home, plugin(tmp_path / "p"))
    plugin(home.app.home.plugins_dir / "echo-plugin", ECHO.replace("Echoes", "Repeats"))
    await guests.read_plugin("echo-plugin")
    assert not guests.is_let_in("echo-plugin", {"echo": "reads"})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("version", "surprise = 1\nversion"), "surprise"),
        (('["tool"]', '["tool", "root"]'), 'capabilities must be ["tool"]'),
        (("./echo-plugin", "../outside"), "not a file in the plugin's folder"),
        (("./echo-plugin", "/bin/sh"), "not a file in the plugin's folder"),
        (("{ type", '{ "$ref" = "https://evil.example/x", type'), "outside itself"),
        (('name = "echo"', 'name = "a b"'), "characters other than"),
        (('"echo-plugin"\nversion', '"../x"\nversion'), "not a valid name"),
        (("[[tools]]", "[[tools]"), "manifest.toml"),
    ],
)
def test_a_mistake_in_the_manifest_is_refused_and_named(tmp_path, change, why):
    with pytest.raises(UsageError) as refused:
        read_plugin(plugin(tmp_path / "p", ECHO.replace(*change, 1)))
    assert why in str(refused.value)


def test_a_fault_names_its_line(tmp_path):
    with pytest.raises(UsageError, match="line 3"):
        read_plugin(plugin(tmp_path / "p", ECHO.replace('["tool"]', '["other"]')))


TWO = f"""timeout_seconds = 60.0
domains = []
read = []
{ECHO}[[tools]]
name = "again"
command = "./echo-plugin"
schema = {{ type = "object" }}
"""


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (('name = "again"', 'name = "a b"'), 13),
        (('name = "again"', "name = 1"), 13),
        (('name = "again"\n', 'name = "again"\nsurprise = 1\n'), 14),
        (('name = "again"\n', ""), 12),
        (('name = "again"\ncommand = "./echo-plugin"', 'name = "again"\ncommand = "manifest.toml"'), 14),
        (("60.0", "99999"), 1),
        (("domains = []", 'domains = ["not a host!"]'), 2),
        (("read = []", 'read = ["relative"]'), 3),
    ],
)
def test_a_fault_names_the_line_of_its_own_tool(tmp_path, change, line):
    folder = plugin(tmp_path / "p", TWO.replace(*change, 1))
    with pytest.raises(UsageError, match=f"line {line}:"):
        read_plugin(folder)


def test_links_that_leave_it_setuid_and_special_files_are_refused(tmp_path):
    linked = plugin(tmp_path / "a")
    (linked / "out").symlink_to("/etc/passwd")
    suid = plugin(tmp_path / "b")
    (suid / "echo-plugin").chmod(0o4755)
    piped = plugin(tmp_path / "c")
    os.mkfifo(piped / "pipe")
    large = plugin(tmp_path / "d")
    with (large / "big").open("wb") as file:
        file.truncate(21 << 20)
    for folder, why in ((linked, "leads out"), (suid, "setuid"), (piped, "neither"), (large, "20 MB")):
        with pytest.raises(UsageError, match=why):
            read_plugin(folder)


async def test_installing_and_approving_run_nothing(sample, tmp_path):
    home = sample()
    await let_in(home, plugin(tmp_path / "p"))
    assert not home.box.specs
    assert "echo-plugin.echo" in home.app.tools


async def test_a_call_is_one_object_in_and_one_out_in_a_box_of_its_own(sample, tmp_path):
    home = sample()
    await let_in(home, plugin(tmp_path / "p"))
    home.box = FakeBox(lambda _: finished(b'{"success": true, "output": "hi", "error": null, "metadata": {}}\n'))
    done = await home.call("echo-plugin.echo", Turn("turn_1", "", "chat"), word="x")
    assert (done.result.output, done.result.label) == ("hi", "untrusted:guest:echo-plugin")
    (spec,) = home.box.specs
    asked = json.loads(spec.stdin)
    assert (asked["tool"], asked["args"], bool(asked["call_id"])) == ("echo", {"word": "x"}, True)
    assert (spec.domains, [mount.writable for mount in spec.mounts]) == ((), [False])
    assert (spec.limits.output_bytes, spec.limits.wall_seconds) == (1 << 20, 60.0)


@pytest.mark.parametrize(
    "answer",
    [b"", b"hello", b'{"success": true}{"success": true}', b"[1]", b'{"success": "yes"}', b'{"success": true, "x": 1}',
     b'{"success": true, "success": true}', b"\xff\xfe"],
)  # fmt: skip
async def test_anything_but_one_such_object_has_failed_with_what_was_seen(sample, tmp_path, answer):
    home = sample()
    await let_in(home, plugin(tmp_path / "p"))
    home.box = FakeBox(lambda _: finished(answer))
    failed = await home.call("echo-plugin.echo", Turn("turn_1", "", "chat"))
    assert (failed.result.code, failed.receipt.status) == ("PLUGIN_ANSWER", "failed")
    assert failed.result.label == "untrusted:guest:echo-plugin"


async def test_what_was_seen_instead_of_an_answer_is_told_without_secrets(sample, tmp_path):
    secret = "hush-hush-4711-hush-hush"
    home = sample()
    await let_in(home, plugin(tmp_path / "p"))
    home.app.redactor.register("SUM_TOKEN", secret)
    for number, ended in enumerate((
        finished(f"Traceback: {secret}".encode()),
        finished(stderr=f"Traceback: {secret}".encode(), exit_code=1),
        finished(f"Traceback: {'y' * 280}{secret}".encode()),  # half of it would be within what is shown
    )):  # fmt: skip
        home.box = FakeBox(lambda _, ended=ended: ended)
        failed = await home.call("echo-plugin.echo", Turn("turn_1", "", "chat"), key=f"k{number}")
        assert "Traceback: " in failed.result.output
        assert "hush" not in failed.result.output


@pytest.mark.parametrize(("kind", "status"), [("reads", "failed"), ("writes", "unknown")])
@pytest.mark.parametrize("end", ["timeout", "output_limit", "memory_limit", "left_behind"])
async def test_one_that_is_cut_off_is_failed_for_a_read_and_unknown_for_a_write(sample, tmp_path, end, kind, status):
    home = sample(security__autonomy="full")
    await let_in(home, plugin(tmp_path / "p"), echo=kind)
    cut = BoxResult(end=end, exit_code=137, stdout=b"", stderr=b"", seconds=1, tier="A", reason="It was cut off.")
    home.box = FakeBox(lambda _: cut)
    ended = await home.call("echo-plugin.echo", Turn("turn_1", "", "chat"))
    assert ended.receipt.status == status


async def test_files_that_changed_after_the_approval_are_not_run(sample, tmp_path):
    home = sample()
    offer = await let_in(home, plugin(tmp_path / "p"))
    program = copy_of(home.app, offer) / "echo-plugin"
    program.write_text("#!/bin/sh\necho planted\n")
    refused = await home.call("echo-plugin.echo", Turn("turn_1", "", "chat"))
    assert refused.result.code == "GUEST_CHANGED"
    assert not home.box.specs


async def test_a_new_version_waits_for_its_approval_and_the_old_one_goes_on(sample, tmp_path):
    home = sample()
    await let_in(home, plugin(tmp_path / "p"))
    install(home.app, plugin(tmp_path / "p", ECHO.replace("Echoes input", "Echoes everything you know")))
    await OwnerGuests(home.app).read_plugin("echo-plugin")
    view = OwnerGuests(home.app).view("echo-plugin")
    assert view.state == "changed"
    assert "{+everything you know+}" in view.difference
    home.box = FakeBox(lambda _: finished(b'{"success": true, "output": "old"}'))
    assert (await home.call("echo-plugin.echo", Turn("turn_1", "", "chat"))).result.output == "old"
    assert load_guest(home.app.db.reader, "echo-plugin").pin.offer.tools[0].description == "Echoes input"


@pytest.mark.slow
async def test_the_example_works_in_a_real_box(sample, tmp_path):
    home = sample()
    write_example(tmp_path / "words", "words")
    await let_in(home, tmp_path / "words", count_words="reads")
    home.app.open_box = lambda: open_box(hide=(str(home.home.root),))
    done = await home.call("words.count_words", Turn("turn_1", "", "chat"), text="one two")
    assert done.result.success, done.result.output
    assert "words" in done.result.output


def test_no_guest_is_called_like_the_folder_of_the_approved_copies(sample, tmp_path):
    """Its own folder, which it may change, would hold the programs of all plugins."""
    with pytest.raises(UsageError, match="not a valid name"):
        install(sample().app, plugin(tmp_path / "p", ECHO.replace("echo-plugin", "plugins", 1)))


async def test_removing_a_plugin_leaves_those_whose_names_begin_like_its_own(sample, tmp_path):
    home = sample()
    await let_in(home, plugin(tmp_path / "p", ECHO.replace("echo-plugin", "echo", 1)))
    other = await let_in(home, plugin(tmp_path / "q", ECHO.replace("echo-plugin", "echo-two", 1)))
    await OwnerGuests(home.app).forget("echo")
    assert copy_of(home.app, other).is_dir()
    assert [copy.name for copy in copy_of(home.app, other).parent.iterdir()] == [copy_of(home.app, other).name]
