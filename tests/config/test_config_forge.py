"""The bot's repository on GitHub: what the settings must name, and where its token may go."""

import pytest

from coilclaw.config import Home, load
from coilclaw.packets.errors import ConfigError

GITHUB = """\
[forge]
kind = "github"
[forge.github]
repository = "owner/bot"
owner_id = 7
token_env = "BOT_TOKEN"
"""


def problems_of(tmp_path, text):
    home = Home(tmp_path)
    home.config_file.write_text(text)
    try:
        load(home, {"HOME": "/home/owner"})
    except ConfigError as error:
        return error.problems
    return []


def test_a_repository_an_owner_and_one_way_to_sign_in_are_enough(tmp_path):
    assert problems_of(tmp_path, GITHUB) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('repository = "owner/bot"', "", "name the bot's own repository"),
        ("owner_id = 7", "", "only reviews of that account count"),
        ('token_env = "BOT_TOKEN"', "", "or token_env alone"),
        ('token_env = "BOT_TOKEN"', 'token_env = "BOT_TOKEN"\napp_id = 1', "or token_env alone"),
        ("owner_id = 7", 'owner_id = 7\nsign_in_client_id = "Iv1.x"', "sign_in_secret_env together"),
        ("owner_id = 7", 'owner_id = 7\nsign_in_secret_env = "X"', "sign_in_secret_env together"),
    ],
)
def test_what_is_missing_is_named(tmp_path, old, new, said):
    assert said in "".join(problems_of(tmp_path, GITHUB.replace(old, new)))


@pytest.mark.parametrize("url", ["https://git.example.net/api/v3", "http://127.0.0.1:4500", "http://[::1]:80"])
def test_the_token_goes_over_tls_or_stays_on_this_machine(tmp_path, url):
    assert problems_of(tmp_path, f'{GITHUB}api_url = "{url}"\n') == []


@pytest.mark.parametrize(
    "url",
    ["http://git.example.net/api/v3", "http://127.0.0.1:80@evil.example", "ftp://127.0.0.1", "", "api.github.com"],
)
def test_an_address_that_would_show_the_token_is_refused(tmp_path, url):
    assert "forge.github.api_url" in "".join(problems_of(tmp_path, f'{GITHUB}api_url = "{url}"\n'))
