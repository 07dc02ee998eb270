"""Tokens and values that a line end breaks, and addresses that are keys; their benign neighbours stay as they are."""

import pytest

from coilclaw.secrets.redactor import Redactor
from tests.secrets.test_redactor_corpus import cut, streamed

BODY = "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gH3jK5"
VALUE = "correct-horse-" + "Battery9staple-77"
TOKENS = {
    "ghp_": "ghp_" + BODY,
    "sk-": "sk-proj-" + BODY,
    "sk_live_": "sk_live_" + BODY[:24],
    "glpat-": "glpat-" + BODY[:20],
    "gsk_": "gsk_" + BODY,
    "dp.pt.": "dp.pt." + BODY + BODY[:7],
    "dp.st.": "dp.st.dev_personal." + BODY + BODY[:7],
    "eyJ": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + BODY,
    "": VALUE,
}
"""By what tells them: a break inside that is not found."""
FIXED = {
    "5477759780:": "5477759780:" + "AA1PQYqyqdLlusmoIs_mkJZvto8q5Vmp25h",
    "tk_": "tk_" + "agqwtb3nzyjs5h8kmv2d6fxp4urc7",
}
"""Those of one length."""
BREAKS = {
    "a line feed": "\n",
    "a carriage return": "\r",
    "both": "\r\n",
    "indentation": "\n        ",
    "a quotation": "\n> ",
    "quoted-printable": "=\n",
    "quoted-printable with both": "=\r\n",
    "JSON": "\\n",
    "JSON with both": "\\r\\n",
    "JSON with indentation": "\\n    ",
    "a shell's continuation": "\\\n",
    "another separator": "\u2028",
    "a next-line character": "\x85",
}
TEAM = "T03YEDP48/B51BSLV6E/" + "N9IRZTSERdjTdG7OCpJvLcRt"
LONG = BODY + BODY[:30]
HOOK = "qjp3xq8xgpn4" + "te6mr91hnbrpya"
TOPIC = "alerts-x83hfa9s2k"
PLACE = "3f2504e0-4f89-41d3-9a0c-0305e82c3301@" + "6b29fc40-ca47-1067-b31d-00dd010662da"
ADDRESSES = {
    f"https://hooks.slack.com/services/{TEAM}": TEAM[20:],
    f"https://hooks.slack-gov.com/services/{TEAM}": TEAM[20:],
    f"https://hooks.slack.com:443/services/{TEAM}": TEAM[20:],
    f"HTTPS://HOOKS.SLACK.COM/services/{TEAM}": TEAM[20:],
    f"https://hooks.slack.com//services/{TEAM}": TEAM[20:],
    f"https:\\/\\/hooks.slack.com\\/services\\/{TEAM.replace('/', chr(92) + '/')}": TEAM[20:],
    f"https%3A%2F%2Fhooks.slack.com%2Fservices%2F{TEAM.replace('/', '%2F')}": TEAM[20:],
    f"https://hooks.slack.com/services/{TEAM[:20]}\n{TEAM[20:]}": TEAM[20:],
    f"https://hooks.slack.com/\nservices/{TEAM}": TEAM[20:],
    "https://hooks.slack.com/services/T00000000/B00000000/" + "X" * 24: "X" * 24,
    f"https://hooks.slack.com/triggers/T03YEDP48/5283456781234/{BODY}": BODY,
    f"https://discord.com/api/webhooks/183456789012345678/{LONG}": LONG,
    f"https://discordapp.com/api/v10/webhooks/183456789012345678/{LONG}": LONG,
    f"https:\\/\\/discord.com\\/api\\/webhooks\\/183456789012345678\\/{LONG}": LONG,
    f"https://contoso.webhook.office.com/webhookb2/{PLACE}/IncomingWebhook/{BODY}/x": BODY,
    f"https://outlook.office.com/webhook/{PLACE}/IncomingWebhook/{BODY}/x": BODY,
    f"https://hooks.zapier.com/hooks/catch/1234567/{BODY[:7]}/": BODY[:7],
    f"https://maker.ifttt.com/trigger/door/with/key/{BODY[:22]}": BODY[:22],
    f"https://hook.eu1.make.com/{BODY[:32].lower()}": BODY[:32].lower(),
    "https://hc-ping.com/3f2504e0-4f89-41d3-9a0c-0305e82c3301": "0305e82c3301",
    f"https://chat.example.org/hooks/{HOOK}": HOOK,
    f"https:\\/\\/chat.example.org\\/hooks\\/{HOOK}": HOOK,
    f"http://mattermost.example.org:8065/team%2Fhooks%2F{HOOK}": HOOK,
    f"https://ntfy.sh/{TOPIC}": TOPIC,
    f"HTTPS://NTFY.SH:443/{TOPIC}": TOPIC,
    "https://eo1a2b3c4d5e6f7.m.pipedream.net/": "eo1a2b3c4d5e6f7",
}
SPLIT = {
    "Teams": (
        "https://contoso.webhook.office.com/webhookb2/",
        f"{PLACE}/IncomingWebhook/9d3f1a7c5e2b48d6a0f4c8b27e61d35f/3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    ),
    "Slack": ("https://hooks.slack.com/services/", TEAM),
    "Discord": ("https://discord.com/api/webhooks/183456789012345678/", LONG),
    "Telegram": ("https://api.telegram.org/bot5477759780:", "AA1PQYqyqdLlusmoIs_" + "mkJZvto8q5Vmp25h"),
    "Mattermost": ("https://chat.example.org/hooks/", HOOK),
    "ntfy": ("https://ntfy.sh/", TOPIC),
}
"""An address and its key, which line ends break."""
BENIGN = [
    "ghp_\nis how they begin",
    "see https://slack.com/intl/de-de/help/articles/115005265063-Incoming-webhooks",
    "https://hooks.slack.com/services/ is where they live",
    "https://discord.com/channels/183456789012345678/183456789012345678",
    "https://discord.com/api/webhooks/183456789012345678",
    "https://www.office.com/launch/word",
    "https://www.make.com/en/help/webhooks",
    "https://ntfy.sh/docs, https://ntfy.sh/app and https://ntfy.sh/settings",
    "an account at https://ntfy.sh/\nSubscriptions are free",
    "https://docs.mattermost.com/hooks/incoming and src/hooks/useconversationscrollstate",
    "https://github.com/owner/repo/settings/hooks/412345678",
    "dp.st.x is a name, tk_button_release_callback_2 another",
    "at 12:30:45\nand 1700000000:\nlater",
    "https://pipedream.com/apps and docs.m.pipedream.net",
    "sk_live_\nexport PATH=/usr/bin",
    "first_line_of_code=\nsecond_line_of_code_2024",
    "my_token\n3f2a1b9c4d5e6f70",
]


def redactor() -> Redactor:
    return Redactor([("MINE", VALUE)])


@pytest.mark.parametrize("end", BREAKS.values(), ids=BREAKS)
@pytest.mark.parametrize("prefix", [*TOKENS, *FIXED])
def test_a_token_that_a_line_end_breaks_is_hidden_wherever_it_falls(prefix: str, end: str) -> None:
    token = (TOKENS | FIXED)[prefix]
    for place in range(max(1, len(prefix)), len(token)):
        first, second = token[:place], token[place:]
        shown = redactor().text(f"see {first}{end}{second} now")
        assert shown.startswith("see ")
        assert shown.endswith(" now")
        assert not (len(first) >= 12 and first in shown), shown
        assert not (len(second) >= 8 and second in shown), shown


@pytest.mark.parametrize("width", [40, 64, 76])
@pytest.mark.parametrize("prefix", TOKENS)
def test_a_long_token_that_a_terminal_wraps_is_hidden_to_its_end(prefix: str, width: int) -> None:
    token = TOKENS[prefix] + (BODY * 6 if prefix else "")
    text = f"see {token}"
    shown = redactor().text("\n".join(cut(text, width)) + " now")
    assert not any(piece in shown for piece in cut(token, 8) if len(piece) == 8), shown


@pytest.mark.parametrize(("address", "key"), ADDRESSES.items())
def test_the_key_in_the_address_of_a_webhook_is_hidden(address: str, key: str) -> None:
    shown = redactor().text(f'{{"url": "{address}", "more": 1}}')
    assert key not in shown
    assert shown.endswith('", "more": 1}')
    assert redactor().text(shown) == shown


@pytest.mark.parametrize("end", BREAKS.values(), ids=BREAKS)
@pytest.mark.parametrize("kind", SPLIT)
def test_the_key_in_an_address_is_hidden_wherever_a_line_ends_in_it(kind: str, end: str) -> None:
    address, key = SPLIT[kind]
    for place in range(len(key)):
        first, second = key[:place], key[place:]
        shown = redactor().text(f"see {address}{first}{end}{second} now")
        assert not (len(first) >= 8 and first in shown), shown
        assert not (len(second) >= 8 and second in shown), shown
        assert shown.startswith("see ")
        assert shown.endswith(" now")


@pytest.mark.parametrize("width", [40, 64, 76])
@pytest.mark.parametrize("kind", SPLIT)
def test_an_address_that_a_terminal_wraps_is_hidden_to_its_end(kind: str, width: int) -> None:
    address, key = SPLIT[kind]
    pieces = cut(f"see {address}{key} now", width)
    kept = len(f"see {address}")
    whole = [piece for at, piece in enumerate(pieces) if at * width >= kept and (at + 1) * width <= kept + len(key)]
    shown = redactor().text("\n".join(pieces))
    assert not any(piece in shown for piece in whole), shown


@pytest.mark.parametrize("text", BENIGN)
def test_neighbours_stay_as_they_are(text: str) -> None:
    assert redactor().text(text) == text


@pytest.mark.parametrize(
    "following", ["2024-05-01T10:00:00Z INFO ready", "export PATH=/usr/bin", "python3.11 -m build", "DB_HOST=x1y2z3a4"]
)
def test_the_line_after_a_token_stays(following: str) -> None:
    assert redactor().text(f"{TOKENS['ghp_']}\n{following}") == f"[redacted:github]\n{following}"


@pytest.mark.parametrize("size", [1, 3, 7, 50])
def test_every_chunking_of_what_is_broken_gives_what_the_whole_gives(size: int) -> None:
    texts = [
        f"see {t[:k]}{end}{t[k:]} now"
        for t in (TOKENS | FIXED).values()
        for end in BREAKS.values()
        for k in (4, 12, 25)
    ]
    texts += [
        f"at {a}{k[:n]}{end}{k[n:]} now" for a, k in SPLIT.values() for end in BREAKS.values() for n in (0, 5, 12)
    ]
    for text in [*texts, *(f"at {address} now" for address in ADDRESSES), *BENIGN]:
        assert streamed(redactor(), cut(text, size))[1] == redactor().text(text), text
