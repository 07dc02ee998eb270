"""The model server that ships: what it records, and that it starts and stops cleanly."""

import subprocess
import sys

import httpx
import pytest

from coilclaw.sandbox import fake_anthropic, fake_generate, fake_openai, fake_responses
from coilclaw.sandbox.fake_openai import FakeOpenAI


async def test_requests_are_kept_as_they_came(connect, ask):
    with FakeOpenAI(models=("a", "b")) as fake:
        assert "2 models" in await connect(fake.base_url, model="b").check()
        await connect(fake.base_url).chat(ask("hi"))
        assert [(request.method, request.path) for request in fake.requests] == [
            ("GET", "/v1/models"),
            ("POST", "/v1/chat/completions"),
        ]
        assert fake.requests[1].headers["content-type"] == "application/json"


async def test_an_unknown_scene_is_answered_with_the_known_ones(fake, connect, ask):
    with pytest.raises(Exception, match="There is no scene nonsense"):
        await connect(fake.base_url).chat(ask("[[nonsense]]"))


@pytest.mark.parametrize(("choice", "called"), [("auto", True), ("none", False)])
def test_calls_are_made_unless_the_question_rules_them_out(choice, called):
    """Coding programs say `auto` with each question."""
    tools = [{"type": "function", "name": "exec_command", "parameters": {"type": "object"}}]
    said = [{"role": "user", "content": [{"type": "input_text", "text": "[[tool:exec_command {}]]"}]}]
    body = {"model": "m", "input": said, "tools": tools, "tool_choice": choice}
    with fake_responses.FakeResponses() as fake:
        answer = httpx.post(f"{fake.base_url}/responses", json=body).json()
    assert [each["type"] for each in answer["output"]] == ["function_call" if called else "message"]


async def test_stopping_frees_the_port_even_while_someone_waits(connect, ask):
    fake = FakeOpenAI().start()
    port = int(fake.base_url.split(":")[2].partition("/")[0])
    fake.stop()
    with FakeOpenAI(port=port) as again:
        assert (await connect(again.base_url).chat(ask("hi"))).final_text == "You said: hi"


def test_every_scene_is_told_in_the_documentation(pytestconfig):
    text = (pytestconfig.rootpath / "docs" / "mock-provider.md").read_text()
    scenes = {*fake_openai.SCENES, *fake_anthropic.SCENES, *fake_responses.SCENES, *fake_generate.SCENES}
    assert [scene for scene in scenes if f"[[{scene}" not in text] == []


async def test_it_runs_as_a_program(connect, ask):
    command = [sys.executable, "-m", "coilclaw.sandbox.fake_openai", "--api-key", "k"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        base_url = process.stdout.readline().strip()
        assert (await connect(base_url, api_key="k").chat(ask("hi"))).final_text == "You said: hi"
    finally:
        process.terminate()
        process.wait(120)
        process.stdout.close()
