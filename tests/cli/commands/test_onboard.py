"""Setting up: what is found, what is written, what is tried."""

import io
import os
import subprocess
import sys
import tomllib
from contextlib import contextmanager
from pathlib import Path

import pytest

import coilclaw.cli.commands.onboard as onboarding
from coilclaw.cli.commands.onboard import AUTONOMY, Choice, find_providers
from coilclaw.sandbox.fake_openai import FakeOpenAI

COILCLAW = Path(sys.executable).with_name("coilclaw")


def onboard(home, *args, **env):
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("COILCLAW_", "OPENAI_", "GROQ_"))
    }
    return subprocess.run(
        [COILCLAW, "onboard", "--non-interactive", *args],
        env={**clean, "COILCLAW_HOME": str(home), **env},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def written(home):
    return tomllib.loads((home / "config.toml").read_text())


def test_a_server_given_by_flags_is_written_and_tried(tmp_path):
    home = tmp_path / "home"
    with FakeOpenAI() as server:
        done = onboard(
            home, "--provider", "lab", "--base-url", server.base_url, "--model", "m1", "--autonomy", "readonly"
        )
    assert done.returncode == 0, done.stderr
    assert "lab answers" in done.stdout
    config = written(home)
    assert config["default_provider"] == "lab"
    assert config["providers"]["models"]["lab"] == {
        "kind": "openai-compatible",
        "base_url": server.base_url,
        "model": "m1",
    }
    assert config["security"]["autonomy"] == "readonly"


def test_what_the_owner_wrote_is_kept(tmp_path):
    home = tmp_path / "home"
    onboard(home, "--provider", "mock")
    with (home / "config.toml").open("a") as file:
        file.write("\n# my own words\n")
    onboard(home, "--provider", "x", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--no-test")
    text = (home / "config.toml").read_text()
    assert "# my own words" in text
    assert written(home)["default_provider"] == "x"


def test_a_provider_that_does_not_answer_leaves_the_configuration_and_exit_1(tmp_path):
    done = onboard(tmp_path / "home", "--provider", "x", "--base-url", "http://127.0.0.1:9/v1", "--model", "m")
    assert done.returncode == 1
    assert "The configuration was written" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_key_in_the_environment_is_found_and_only_named(tmp_path):
    home = tmp_path / "home"
    done = onboard(home, "--no-test", OPENAI_API_KEY="sk-planted-0123456789abcdef")
    assert done.returncode == 0, done.stderr
    text = (home / "config.toml").read_text()
    assert "sk-planted" not in text + done.stdout + done.stderr
    assert written(home)["providers"]["models"]["openai"]["api_key_env"] == "OPENAI_API_KEY"


@pytest.mark.parametrize("args", [("--provider", "nobody-knows"), ("--base-url", "http://x/v1")])
def test_flags_that_do_not_say_enough_are_a_usage_error(tmp_path, args):
    done = onboard(tmp_path / "home", *args)
    assert done.returncode == 2
    assert "needs" in done.stderr


def test_local_servers_come_before_hosted_ones():
    local = Choice(name="ollama", base_url="http://127.0.0.1:11434/v1", model="m", api_key_env="", why="")
    found = find_providers({"OPENAI_API_KEY": "x", "GROQ_API_KEY": "y"}, [local])
    assert [choice.name for choice in found] == ["ollama", "openai", "groq"]


def test_a_light_model_beside_the_strong_one_makes_a_router(tmp_path):
    home = tmp_path / "home"
    with FakeOpenAI() as server:
        flags = ("--provider", "lab", "--base-url", server.base_url, "--model", "big", "--light-model", "small")
        done = onboard(home, *flags)
    assert done.returncode == 0, done.stderr
    config = written(home)
    models = config["providers"]["models"]
    assert config["default_provider"] == "lab_by_task"
    assert (models["lab"]["model"], models["lab_light"]["model"]) == ("big", "small")
    assert models["lab_by_task"] == {
        "kind": "router",
        "default": "lab",
        "routes": {
            "route": "lab_light", "summarise": "lab_light", "chat": "lab", "plan": "lab", "job": "lab", "author": "lab",
        },
    }  # fmt: skip


def test_one_question_offers_a_light_model_where_one_is_known(capsys):
    from click.testing import CliRunner

    from coilclaw.cli.commands.onboard import HOSTED, _light

    known = next(choice for choice in HOSTED if choice.light)
    unknown = next(choice for choice in HOSTED if not choice.light)

    def answered(text, choice):
        with CliRunner().isolation(input=text):
            return _light(choice, None, interactive=True)

    assert answered("\n", known) == known.light
    assert answered("none\n", known) == ""
    assert answered(f"{known.model}\n", known) == ""
    assert answered("", unknown) == ""
    assert _light(known, None, interactive=False) == ""


def test_models_and_autonomy_are_chosen_by_number_or_name(capsys):
    several = Choice(name="x", base_url="", model="a", api_key_env="", why="", models=("a", "b\x1b[2J", "c"))
    with answering("3\n2\n9\n1\nc\nfull\n"):
        assert onboarding._ask_model(several) == "c"
        assert onboarding._ask_autonomy() == "supervised"
        assert onboarding._ask_autonomy() == "readonly"  # after a number that is not there
        assert onboarding._ask_model(several) == "c"
        assert onboarding._ask_autonomy() == "full"
    shown = capsys.readouterr().err
    assert "  3) c\n" in shown
    assert "\x1b[2J" not in shown
    for level, meaning in AUTONOMY.items():
        assert f"{level}: {meaning}\n" in shown


def test_a_server_typed_in_is_asked_for_its_models_and_wrong_answers_are_asked_again(capsys):
    with FakeOpenAI() as server, answering(f"1\nnot an address\n{server.base_url}\n\nhttp://name\nlab\n\n"):
        choice = onboarding._ask([])
        assert (choice.name, choice.base_url, choice.api_key_env) == ("lab", server.base_url, "")
        assert choice.models == ("fake-model",)
        assert onboarding._ask_model(choice) == "fake-model"  # Enter takes it; nothing is asked twice
    shown = capsys.readouterr().err
    assert "The address needs an http:// or https:// address" in shown
    assert "a provider's name is letters, digits" in shown
    assert shown.count("Model") == 1


def test_a_choice_that_would_break_the_configuration_is_not_written(tmp_path):
    home = tmp_path / "home"
    onboard(home, "--provider", "mock")
    before = (home / "config.toml").read_bytes()
    for wrong in (("--provider", "a/b", "--base-url", "http://127.0.0.1:9/v1"), ("--provider", "x", "--base-url", "1")):
        done = onboard(home, *wrong, "--model", "m", "--no-test")
        assert done.returncode == 2
        assert "Nothing was written" in done.stderr
        assert (home / "config.toml").read_bytes() == before


@contextmanager
def answering(typed):
    """Somebody who types this."""
    before, sys.stdin = sys.stdin, io.StringIO(typed)
    try:
        yield
    finally:
        sys.stdin = before


def test_a_google_client_is_written_with_what_to_do_next(tmp_path):
    home = tmp_path / "home"
    done = onboard(home, "--provider", "mock", "--no-test", "--google-client-id", "id.apps.example")
    assert done.returncode == 0, done.stderr
    assert written(home)["google"] == {"client_id": "id.apps.example", "client_secret_env": "GOOGLE_CLIENT_SECRET"}
    assert "coilclaw google connect --identity user" in done.stdout
