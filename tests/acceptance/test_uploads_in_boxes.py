"""Uploads and real boxes: what a command sees of `attachments/`, and what it then carries."""

import pytest

from tests.acceptance.conftest import HomeAt

pytestmark = pytest.mark.slow

HIDDEN_WAYS = (
    "cat a*/letter.txt || touch looked",
    "ln -s a*hments there; cat there/letter.txt || touch looked",
    "python3 look.py; touch looked",
)


def test_a_command_reads_uploads_only_when_it_names_them(home: HomeAt) -> None:
    folder = home.workspace / "attachments"
    folder.mkdir(exist_ok=True)
    (folder / "letter.txt").write_text("dear assistant")
    (home.workspace / "look.py").write_text(
        "import glob\nprint([open(each).read() for each in glob.glob('*/lett*')])\n"
    )

    for command in HIDDEN_WAYS:
        ran = home.tool("shell", {"command": command}, "--yes")
        assert "dear assistant" not in ran.out, ran
        (home.workspace / "looked").unlink()
    named = home.tool("shell", {"command": "cat attachments/letter.txt; touch looked"}, "--yes")

    assert "dear assistant" in named.out
    assert (folder / "letter.txt").read_text() == "dear assistant"
