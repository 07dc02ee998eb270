"""Notes and artifacts: kept with where they came from, once, within bounds."""

import msgspec
import pytest

from coilclaw.agent.context import chat_messages
from coilclaw.gate.turn import Turn
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context
from coilclaw.store.notes import NOTE_BYTES, NoteShelf, artifact_id_of
from coilclaw.store.threads import ARTIFACT_BYTES, ensure_thread, recent_messages
from coilclaw.tools.artifacts import PAGE_BYTES, GetArgs, PutArgs, artifact_get, artifact_put
from coilclaw.tools.notes import MAX_TITLES, NoteArgs, NoteReadArgs, notes_read, notes_write

EVIL, BAD = "untrusted:evil.example", "untrusted:bad.example"


@pytest.fixture
def given(db, clock):
    def context(label="internal", key="key-1", job_id=None):
        shelf = NoteShelf(
            db=db, clock=clock, thread_id="conv_1", turn_id="turn_1", job_id=job_id, label=label, idempotency_key=key
        )
        return Context(
            source="cli", thread_id="conv_1", clock=clock, idempotency_key=key, timeout_seconds=5, notes=shelf
        )

    return context


async def test_a_note_is_kept_read_and_replaced_by_its_title(given, db):
    await notes_write.invoke(NoteArgs("plan", "first"), given())
    await notes_write.invoke(NoteArgs(" plan ", "second"), given(key="key-2"))
    read = await notes_read.invoke(NoteReadArgs("plan"), given())
    assert (read.text, read.label) == ("second", "internal")
    assert db.reader.execute("SELECT count(*) FROM notes").fetchone() == (1,)


async def test_the_same_write_again_changes_nothing_but_the_time(given, db):
    for _ in range(2):
        await notes_write.invoke(NoteArgs("plan", "text"), given())
    assert db.reader.execute("SELECT title, content, label FROM notes").fetchall() == [("plan", "text", "internal")]


async def test_a_note_carries_the_label_it_was_written_with_until_it_is_replaced(given):
    await notes_write.invoke(NoteArgs("page", "from the web"), given(label=EVIL))
    assert (await notes_read.invoke(NoteReadArgs("page"), given())).label == EVIL
    await notes_write.invoke(NoteArgs("page", "my own"), given(key="key-2"))
    assert (await notes_read.invoke(NoteReadArgs("page"), given())).label == "internal"


async def test_the_list_of_titles_carries_every_notes_label(given):
    assert (await notes_read.invoke(NoteReadArgs(), given())).text == "There are no notes yet."
    for number, label in enumerate((EVIL, BAD, "internal")):
        await notes_write.invoke(NoteArgs(f"note {number}", "text"), given(label=label, key=f"k{number}"))
    listed = await notes_read.invoke(NoteReadArgs(" "), given())
    assert [line.split("] ")[1] for line in listed.text.splitlines()] == ["note 2", "note 1", "note 0"]
    assert listed.label == "untrusted:bad.example,evil.example"


async def test_a_long_list_is_cut_with_a_word(given):
    context = given()
    for number in range(MAX_TITLES + 1):
        context.notes._db.submit(
            lambda tx, number=number: tx.execute(
                "INSERT INTO notes VALUES (?, NULL, ?, '', 'internal', '2026', '2026')", (str(number), f"t{number}")
            )
        )
    await notes_write.invoke(NoteArgs("last", ""), context)
    listed = (await notes_read.invoke(NoteReadArgs(), context)).text
    assert f"only the newest {MAX_TITLES}" in listed
    assert len(listed.splitlines()) == MAX_TITLES + 1


@pytest.mark.parametrize("title", ["  ", "two\nlines", "hid\u200bden", "bi\u202edi"])
async def test_a_title_that_cannot_be_listed_is_refused(given, title):
    with pytest.raises(ToolError, match="visible text"):
        await notes_write.invoke(NoteArgs(title, "x"), given())


async def test_too_large_a_note_says_what_to_do(given):
    with pytest.raises(ToolError, match="65537 bytes") as caught:
        await notes_write.invoke(NoteArgs("big", "é" * (NOTE_BYTES // 2) + "x"), given())
    assert (caught.value.code, caught.value.remedy) == ("NOTE_TOO_LARGE", "Shorten it, or store it with artifact_put.")
    await notes_write.invoke(NoteArgs("just right", "é" * (NOTE_BYTES // 2)), given())


async def test_a_note_that_is_not_there_is_reported(given):
    with pytest.raises(ToolError, match="no note titled 'x'"):
        await notes_read.invoke(NoteReadArgs("x"), given())


async def test_an_artifact_is_kept_once_for_a_call_however_often_it_is_made(given, db):
    first = await artifact_put.invoke(PutArgs("report.md", "report", "text"), given())
    again = await artifact_put.invoke(PutArgs("report.md", "report", "text"), given(label=EVIL))
    other = await artifact_put.invoke(PutArgs("report.md", "report", "text"), given(key="key-2"))
    assert first.metadata["artifact_id"] == again.metadata["artifact_id"] == artifact_id_of("key-1")
    assert other.metadata["artifact_id"] != first.metadata["artifact_id"]
    assert (
        db.reader.execute("SELECT name, type, thread_id FROM artifacts").fetchall()
        == [("report.md", "report", "conv_1")] * 2
    )
    got = await artifact_get.invoke(GetArgs(artifact_id_of("key-1")), given())
    assert (got.text, got.label) == ("text", EVIL), "a repeat may know of more sources, never of fewer"


async def test_another_artifact_with_the_same_key_is_refused(given):
    await artifact_put.invoke(PutArgs("a", "report", "text"), given())
    for args in (PutArgs("a", "report", "other"), PutArgs("b", "report", "text"), PutArgs("a", "data", "text")):
        with pytest.raises(ToolError) as caught:
            await artifact_put.invoke(args, given())
        assert caught.value.code == "ARTIFACT_CONFLICT"


async def test_an_artifact_carries_its_label(given):
    put = await artifact_put.invoke(PutArgs("a", "data", "from the web"), given(label=EVIL))
    got = await artifact_get.invoke(GetArgs(put.metadata["artifact_id"]), given(label="internal"))
    assert got.label == EVIL


async def test_long_artifact_shows_its_beginning(given):
    put = await artifact_put.invoke(PutArgs("a", "data", "é" * PAGE_BYTES), given())
    got = await artifact_get.invoke(GetArgs(put.metadata["artifact_id"]), given())
    shown, _, note = got.text.rpartition("\n")
    assert shown == "é" * (PAGE_BYTES // 2)
    assert note == f"[bytes 0 to {PAGE_BYTES} of {PAGE_BYTES * 2}. Go on with offset {PAGE_BYTES}.]"


async def test_pages_of_an_artifact_end_between_characters_and_lose_none(given):
    text = "".join(chr(0x4E00 + at) for at in range(5000))
    put = await artifact_put.invoke(PutArgs("a", "data", text), given())
    offset, pages = 0, []
    while offset is not None:
        got = await artifact_get.invoke(GetArgs(put.metadata["artifact_id"], offset, 1000), given())
        page, _, note = got.text.rpartition("\n")
        pages.append(page)
        offset = int(note.rpartition("offset ")[2].rstrip(".]")) if "Go on" in note else None
    assert "".join(pages) == text
    beyond = await artifact_get.invoke(GetArgs(put.metadata["artifact_id"], 99_999), given())
    assert beyond.text == "\n[bytes 15000 to 15000 of 15000.]"


async def test_too_large_an_artifact_says_what_to_do(given, db):
    with pytest.raises(ToolError, match="at most 2097152 are allowed") as caught:
        await artifact_put.invoke(PutArgs("a", "data", "x" * (ARTIFACT_BYTES + 1)), given())
    assert "Split it" in caught.value.remedy
    assert db.reader.execute("SELECT count(*) FROM artifacts").fetchone() == (0,)


async def test_what_is_not_text_or_not_there_is_reported(given):
    context = given()
    artifact_id = await context.notes.put_artifact(kind="data", name="x", content=b"\xff\xfe")
    for wanted, code in ((artifact_id, "ARTIFACT_NOT_TEXT"), ("art_nothing", "NO_SUCH_ARTIFACT")):
        with pytest.raises(ToolError) as caught:
            await artifact_get.invoke(GetArgs(wanted), context)
        assert caught.value.code == code


@pytest.mark.parametrize("kind", ["Report", "a b", "", "9"])
def test_a_kind_is_a_plain_word(kind):
    with pytest.raises(msgspec.ValidationError):
        artifact_put.parse(msgspec.json.encode({"name": "n", "kind": kind, "content": ""}))


@pytest.mark.parametrize(("name", "kind"), [("two\nlines", "data"), ("hid\u200bden", "data"), ("n", "data\n")])
async def test_a_name_that_cannot_be_shown_is_refused(given, name, kind):
    with pytest.raises(ToolError, match="visible text"):
        await artifact_put.invoke(PutArgs(name, kind, ""), given())


async def test_without_a_grant_nothing_is_kept(clock):
    bare = Context(source="cli", thread_id="", clock=clock, idempotency_key="k", timeout_seconds=1)
    for tool, args in (
        (notes_write, NoteArgs("t", "c")),
        (notes_read, NoteReadArgs()),
        (artifact_put, PutArgs("n", "data", "c")),
        (artifact_get, GetArgs("art_1")),
    ):
        with pytest.raises(ToolError) as caught:
            await tool.invoke(args, bare)
        assert caught.value.code == "NOT_GRANTED"


def test_what_they_declare():
    declared = {
        each.name: (each.effect, each.destination, each.idempotent)
        for each in (notes_write, notes_read, artifact_put, artifact_get)
    }
    assert declared == {
        "notes_write": ("WRITE", "internal", True),
        "notes_read": ("READ", "internal", True),
        "artifact_put": ("WRITE", "internal", True),
        "artifact_get": ("READ", "internal", True),
    }


async def test_artifact_is_announced_in_its_thread_once_and_the_model_is_not_told_twice(sample):
    home = sample()
    home.app.db.write_now(lambda tx: ensure_thread(tx, home.app.clock, "conv_1", "cli", ""))
    outcome = await home.call(
        "artifact_put", Turn("turn_1", "conv_1", "chat"), "k", name="report.md", kind="report", content="done"
    )
    artifact_id = outcome.result.metadata["artifact_id"]
    (told,) = recent_messages(home.app.db.reader, "conv_1", 10)
    assert (told.role, told.turn_id, told.metadata["announces"]) == ("system", "turn_1", artifact_id)
    assert told.content == f"Artifact report.md (report, 4 bytes): {artifact_id}."
    assert chat_messages([told]) == ()
