"""Context window and vision of well-known models."""

from coilclaw.packets.chat import DEFAULT_CONTEXT_WINDOW

# By prefix; the first match counts. Better too small a window than too large: context_window
# overrides it.
_KNOWN: tuple[tuple[str, int, bool], ...] = (
    ("claude-instant", 100_000, False),
    ("claude-2", 100_000, False),
    ("claude-", 200_000, True),
    ("gpt-5", 400_000, True),
    ("gpt-4.1", 1_000_000, True),
    ("gpt-4o", 128_000, True),
    ("gpt-4-turbo", 128_000, True),
    ("gpt-4", 8_192, False),
    ("gpt-3.5", 16_385, False),
    ("gpt-oss", 128_000, False),
    ("o1", 200_000, True),
    ("o3", 200_000, True),
    ("o4", 200_000, True),
    ("gemini-", 1_000_000, True),
    ("deepseek-", 64_000, False),
    ("mistral-large", 128_000, False),
)


def context_window(model: str) -> int:
    """The context window of a model, request and answer together."""
    known = _find(model)
    return DEFAULT_CONTEXT_WINDOW if known is None else known[1]


def sees(model: str, otherwise: bool) -> bool:
    """Whether a model has vision; `otherwise` for an unknown one."""
    known = _find(model)
    return otherwise if known is None else known[2]


def _find(model: str) -> tuple[str, int, bool] | None:
    name = model.rpartition("/")[2].lower()  # some servers prefix the vendor
    return next((known for known in _KNOWN if name.startswith(known[0])), None)
