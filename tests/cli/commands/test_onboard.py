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
from coilclaw.cli.commands.onboard import AUTONOMY, LOCAL_PORTS, Choice, find_providers
from coilclaw.config import Config
from coilclaw.config.models import OpenAIModel, Providers
from coilclaw.packets.settings import SettingChange
from coilclaw.sandbox.fake_anthropic import FakeAnthropic
from coilclaw.sandbox.fake_openai import FakeOpenAI
from coilclaw.sandbox.fake_responses import FakeResponses
from tests.missing import without_model_servers

COILCLAW = Path(sys.executable).with_name("coilclaw")


def onboard(home, *args, **env):
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("COILCLAW_", "ANTHROPIC_", "OPENAI_", "OPENROUTER_", "GROQ_"))
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


OTHER = ("--provider", "x", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--no-test")


def test_what_was_set_up_changes_only_with_an_approval_and_keeps_what_the_owner_wrote(tmp_path):
    home = tmp_path / "home"
    assert onboard(home, "--provider", "mock", "--no-test").returncode == 0
    with (home / "config.toml").open("a") as file:
        file.write("\n# my own words\n")
    before = (home / "config.toml").read_bytes()
    done = onboard(home, *OTHER)
    assert done.returncode == 4, done.stderr
    assert "settings_change waits for your approval" in done.stderr
    assert (home / "config.toml").read_bytes() == before
    again = onboard(home, "--provider", "mock", "--no-test")
    assert again.returncode == 0  # it says so already
    assert (home / "config.toml").read_bytes() == before


def test_the_first_choice_keeps_a_link_and_what_init_wrote(tmp_path):
    home, elsewhere = tmp_path / "home", tmp_path / "kept.toml"
    assert onboard(home, "--provider", "nobody-knows").returncode == 2  # made, and nothing chosen
    (home / "config.toml").rename(elsewhere)
    (home / "config.toml").symlink_to(elsewhere)
    assert onboard(home, *OTHER).returncode == 0
    assert (home / "config.toml").is_symlink()
    assert written(home)["default_provider"] == "x"
    assert "# CoilClaw's configuration." in elsewhere.read_text()
    assert elsewhere.stat().st_mode & 0o777 == 0o600


def test_a_provider_that_does_not_answer_leaves_the_configuration_and_exit_1(tmp_path):
    done = onboard(tmp_path / "home", "--provider", "x", "--base-url", "http://127.0.0.1:9/v1", "--model", "m")
    assert done.returncode == 1
    assert "The configuration was written" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_key_in_the_environment_is_found_and_only_named(tmp_path):
    without_model_servers(LOCAL_PORTS)
    home = tmp_path / "home"
    done = onboard(home, "--no-test", OPENAI_API_KEY="sk-planted-0123456789abcdef")
    assert done.returncode == 0, done.stderr
    text = (home / "config.toml").read_text()
    assert "sk-planted" not in text + done.stdout + done.stderr
    assert written(home)["providers"]["models"]["openai"]["api_key_env"] == "OPENAI_API_KEY"


@pytest.mark.parametrize(
    ("key", "name", "kind"),
    [
        ("ANTHROPIC_API_KEY", "anthropic", "anthropic"),
        ("OPENAI_API_KEY", "openai", "openai-responses"),
        ("OPENROUTER_API_KEY", "openrouter", "openai-compatible"),
    ],
)
def test_each_key_leads_to_the_api_its_provider_speaks_best(tmp_path, key, name, kind):
    without_model_servers(LOCAL_PORTS)
    home = tmp_path / "home"
    done = onboard(home, "--no-test", **{key: "planted-0123456789abcdef"})
    assert done.returncode == 0, done.stderr
    config = written(home)
    assert config["default_provider"] == name
    assert config["providers"]["models"][name]["kind"] == kind
    assert config["providers"]["models"][name]["api_key_env"] == key


def test_a_provider_that_is_known_needs_only_its_name(tmp_path):
    home = tmp_path / "home"
    done = onboard(home, "--provider", "anthropic", "--light-model", "claude-haiku-4-5", "--no-test")
    assert done.returncode == 0, done.stderr
    models = written(home)["providers"]["models"]
    assert [models[name]["kind"] for name in ("anthropic", "anthropic_light", "anthropic_by_task")] == [
        "anthropic", "anthropic", "router",
    ]  # fmt: skip
    assert models["anthropic"]["api_key_env"] == "ANTHROPIC_API_KEY"


@pytest.mark.parametrize(
    ("fake", "flags"),
    [
        (FakeAnthropic, ("--provider", "anthropic")),
        (FakeAnthropic, ("--provider", "lab", "--kind", "anthropic", "--model", "m", "--api-key-env", "LAB_KEY")),
        (FakeResponses, ("--provider", "openai")),
    ],
)
def test_a_server_with_a_wire_of_its_own_is_written_and_answers(tmp_path, fake, flags):
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "LAB_KEY"), "planted-0123456789abcdef")
    with fake() as server:
        done = onboard(tmp_path / "home", *flags, "--base-url", server.base_url, **keys)
    assert done.returncode == 0, done.stderr
    assert f"{flags[1]} answers" in done.stdout


def test_without_a_key_the_question_says_which_variables_are_looked_for(capsys):
    with answering("2\n"):
        assert onboarding._ask([]) is None
    assert "set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY, or store it" in capsys.readouterr().err


@pytest.mark.parametrize("args", [("--provider", "nobody-knows"), ("--base-url", "http://x/v1")])
def test_flags_that_do_not_say_enough_are_a_usage_error(tmp_path, args):
    done = onboard(tmp_path / "home", *args)
    assert done.returncode == 2
    assert "needs" in done.stderr


def test_local_servers_come_before_hosted_ones():
    local = Choice(
        name="ollama", kind="openai-compatible", base_url="http://127.0.0.1:11434/v1", model="m", api_key_env="", why=""
    )
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


def test_a_key_that_is_stored_is_found_like_one_in_the_environment(tmp_path):
    without_model_servers(LOCAL_PORTS)
    home = tmp_path / "home"
    onboard(home, "--provider", "nobody-knows")  # makes the home
    env = {**os.environ, "COILCLAW_HOME": str(home)}
    set_key = [COILCLAW, "secret", "set", "GROQ_API_KEY"]
    stored = subprocess.run(
        set_key, env=env, input="planted-0123456789abcdef", capture_output=True, text=True, check=True
    )
    assert "Nothing in config.toml refers to GROQ_API_KEY yet. `coilclaw onboard` sets up the model." in stored.stderr
    assert onboard(home, "--no-test").returncode == 0
    assert written(home)["default_provider"] == "groq"
    assert written(home)["providers"]["models"]["groq"]["api_key_env"] == "GROQ_API_KEY"


def test_enter_leaves_the_model_and_the_autonomy_that_are_in_force(capsys):
    now = OpenAIModel(base_url="http://127.0.0.1:9/v1", model="big")
    config = Config(default_provider="lab", providers=Providers(models={"lab": now}))
    with answering("\n\n"):
        choice = onboarding._ask(onboarding._in_force(config))
        assert choice is not None
        assert onboarding._changes(config, choice, onboarding._ask_autonomy("full"), "") == [
            SettingChange(key="security.autonomy", value="full")
        ]
        assert onboarding._in_force(Config()) == []
    assert "  1) lab: big (as it is now)\n" in capsys.readouterr().err


def test_models_and_autonomy_are_chosen_by_number_or_name(capsys):
    several = Choice(name="x", kind="", base_url="", model="a", api_key_env="", why="", models=("a", "b\x1b[2J", "c"))
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
        assert "Traceback" not in done.stderr
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
