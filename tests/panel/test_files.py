"""Files in a real browser: shown in their colours, taken back one change at a time, vouched for with the passkey."""

import time

import pytest

from tests.panel.acts import approve, begin_talk, settle_in
from tests.panel.house import House
from tests.panel.window import Look

pytestmark = pytest.mark.slow

CODE = '"""Adds."""\n\n\ndef add(a: int, b: int) -> int:\n    return a + b  # 42\n'
SCRIPT = [
    {"match": "tidy up", "tool_calls": [{"tool": "file_write", "args": {"path": "one.py", "content": CODE}}]},
    {"match": "tidy up", "tool_calls": [{"tool": "file_write", "args": {"path": "two.md", "content": "# Two\n"}}]},
    {"match": "tidy up", "text": f"So it is:\n\n```python\n{CODE}```\n\n```\nplain\n```"},
]  # fmt: skip


@pytest.fixture
def house(tmp_path):
    made = House(tmp_path, script=SCRIPT)
    yield made
    made.close()


def colours(w, place):
    """The words that have a colour there, by their kind."""
    script = "(all) => all.map((each) => [each.className, each.textContent])"
    w.page.locator(f"{place} .hl-keyword").first.wait_for()
    return w.page.locator(f"{place} [class^=hl-]").evaluate_all(script)


COLOURED = [
    ["hl-string", '"""Adds."""'],
    ["hl-keyword", "def"],
    ["hl-keyword", "return"],
    ["hl-comment", "# 42"],
]


@pytest.mark.parametrize("look", [Look("phone", "dark"), Look("desktop", "light")], ids=str)
def test_one_of_two_writes_is_taken_back_and_code_has_its_colours(house, window, look):
    (house.workspace / "one.py").write_text("before\n")
    w = window(look)
    settle_in(w)
    begin_talk(w, "Please tidy up")
    for path in ("one.py", "two.md"):
        w.page.locator(".call .detail article").filter(has_text=path).wait_for()
        approve(w, passkey=False)
    w.sees("So it is:")
    assert colours(w, ".prose") == COLOURED
    w.scene("chat-colours")
    w.page.get_by_role("button", name="Undo").first.click()
    w.page.locator(".call .detail article").wait_for()
    w.sees("Take back what was written to one.py")
    w.scene("chat-undo-one")
    approve(w, passkey=False)
    w.sees("Taken back.")
    assert (house.workspace / "one.py").read_text() == "before\n"
    assert (house.workspace / "two.md").exists()


@pytest.mark.parametrize("look", [Look("phone", "light"), Look("desktop", "dark")], ids=str)
def test_a_file_is_vouched_for_and_its_last_change_undone(house, window, look):
    w = window(look)
    settle_in(w)
    w.open("#/chat/new")
    sent = {"name": "theirs.py", "mimeType": "text/x-python", "buffer": CODE.encode()}
    w.page.locator("input[type=file]").first.set_input_files(sent)
    w.page.get_by_text("theirs.py").first.wait_for()
    until = time.monotonic() + 280
    while not (found := list(house.workspace.rglob("*theirs.py"))) and time.monotonic() < until:
        w.page.wait_for_timeout(100)
    (file,) = found
    w.open(f"#/files/{str(file.relative_to(house.workspace)).replace('/', '%2F')}")
    w.sees("Vouch for it")
    assert colours(w, "pre") == COLOURED
    w.scene("files-labelled")
    w.click("Vouch for it")
    w.page.locator(".detail article").first.wait_for()
    w.scene("files-vouch-asks")
    approve(w, passkey=True)
    w.sees("Yours")
    w.page.get_by_text("Vouch for it").wait_for(state="detached")
    w.scene("files-vouched")


def test_a_folder_is_opened_and_a_huge_file_is_refused_in_words_for_the_owner(house, window):
    (house.workspace / "deep").mkdir()
    (house.workspace / "deep" / "inner.md").write_text("found")
    with (house.workspace / "big.bin").open("wb") as big:
        big.truncate(40_000_000)
    w = window(Look("phone", "light"))
    settle_in(w)
    w.open("#/files/deep")
    w.page.locator("article").get_by_role("link", name="inner.md").wait_for()
    w.scene("files-folder")
    w.go("#/files/big.bin")
    w.sees("This file is too large to be shown here.")
    assert w.page.get_by_text("file_read").count() == 0, "that is advice for the model"
    w.scene("files-too-large")
