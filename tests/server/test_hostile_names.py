"""Names that others give hide nothing and turn nothing around, wherever they are shown."""

import json

from tests.server.site import served_whole

HOSTILE = "x\x1b[31m\u202eexe\u200b\u2066"


def hidden(value):
    return [character for character in json.dumps(value, ensure_ascii=False) if character in "\x1b\u202e\u200b\u2066"]


async def test_a_tool_that_the_model_made_up_is_shown_as_it_is_spelled(sample):
    home = sample()
    await home.call(HOSTILE)
    async with served_whole(home) as site:
        for path in ("/v1/actions", "/v1/receipts"):
            answer = await site.http.get(path)
            assert '"tool":"x⟨U+001B⟩[31m⟨U+202E⟩exe' in answer.text
            assert not hidden(answer.json())


async def test_jobs_skills_and_devices_hide_nothing(sample):
    home = sample()
    skill = home.workspace / "skills/one"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(f"---\nname: one\ndescription: {HOSTILE}\n---\n")
    async with served_whole(home) as site:
        assert (await site.http.post("/v1/jobs", json={"goal": HOSTILE})).status_code == 201
        other = site.device(name=HOSTILE)
        for path in ("/v1/jobs", "/v1/skills", "/v1/devices", "/v1/skills/one"):
            answer = await other.get(path)
            assert answer.status_code == 200, answer.text
            told = answer.json()
            told.pop("file", None)  # what a file holds is shown as it is, in an editor
            assert not hidden(told), path
            assert "⟨U+202E⟩" in answer.text
