"""The mark that replaces a secret, and the kinds of secret that are known without registration."""

import re

MARK = re.compile(r"\[redacted:([A-Za-z0-9_.-]{1,64})\]")
_OPEN = "[redacted:"
_NAME = r"[^A-Za-z0-9_.-]+"

FIELD_KINDS = frozenset({
    "password", "secret", "token", "api_key", "private_key", "authorization", "cookie", "credential", "code",
})  # fmt: skip


def mark(label: str) -> str:
    """What is shown in place of a secret."""
    return f"{_OPEN}{label}]"


def label_of(name: str) -> str:
    """A name as it may stand in a mark."""
    return re.sub(_NAME, "_", name)[:64].strip("_") or "secret"


def parted(info: str) -> tuple[str, str, str]:
    """User name, colon, password; the colon of a mark is not one."""
    colon = MARK.sub(lambda hidden: "-" * len(hidden[0]), info).find(":")
    return (info, "", "") if colon < 0 else (info[:colon], ":", info[colon + 1 :])


def word_set(words: str) -> frozenset[str]:
    """The words of a list written as one string."""
    return frozenset(words.split())
