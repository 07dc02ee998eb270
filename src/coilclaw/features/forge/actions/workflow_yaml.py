"""A workflow file read strictly: the part of YAML that every reader reads alike. Anything else is refused by name."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias, Union, cast

if TYPE_CHECKING:
    import yaml

WORKFLOW_BYTES = 64 << 10
MOST_NODES, MOST_DEEP = 4000, 20
Yaml: TypeAlias = Union[str, list["Yaml"], dict[str, "Yaml"]]  # noqa: UP007 - it names itself
"""Every scalar is a text: `on` and `false` mean what stands there. Nothing and null are an empty text."""


class NotPlainYaml(ValueError):
    """The file is not in the part of YAML that is read."""


def read_yaml(data: bytes) -> Yaml:
    """The one document of a file, or NotPlainYaml with the reason."""
    import yaml

    if len(data) > WORKFLOW_BYTES:
        raise NotPlainYaml(f"it is larger than {WORKFLOW_BYTES} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotPlainYaml("it is not UTF-8 text") from error
    hidden = next((each for each in text if not (each.isprintable() or each == "\n")), "")
    if hidden:  # tabs, carriage returns, other line ends: readers differ
        raise NotPlainYaml(f"it holds the character {hidden!a}, which does not show")
    try:
        _refuse_features(text)
        made = yaml.compose(text, yaml.SafeLoader)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        found = cast("yaml.Node | None", made)
    except yaml.YAMLError as error:
        raise NotPlainYaml(f"it is not YAML: {' '.join(str(error).split())[:200]}") from error
    except RecursionError as error:
        raise NotPlainYaml("it is nested too deep") from error
    return "" if found is None else _value(found)


def _refuse_features(text: str) -> None:
    """Refuse what only some readers know, or read in another way."""
    import yaml

    documents = depth = 0
    events = cast("Iterator[yaml.Event]", yaml.parse(text, yaml.SafeLoader))  # pyright: ignore[reportUnknownMemberType]
    for number, event in enumerate(events):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if number > MOST_NODES or depth > MOST_DEEP:
            raise NotPlainYaml("it is too large or nested too deep")
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1 or event.explicit:
                raise NotPlainYaml("it holds a line of dashes or a directive; a file is one document")
        elif isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise NotPlainYaml("it holds an anchor or an alias (& or *)")
        elif getattr(event, "tag", None) is not None:
            raise NotPlainYaml("it holds a tag (!)")


def _value(node: "yaml.Node") -> Yaml:
    import yaml

    if isinstance(node, yaml.ScalarNode):
        plain = node.style is None
        return "" if plain and node.value in ("", "~", "null", "Null", "NULL") else node.value
    if isinstance(node, yaml.SequenceNode):
        if node.flow_style and not all(isinstance(each, yaml.ScalarNode) for each in node.value):
            raise NotPlainYaml("a list in brackets may hold texts only")
        return [_value(each) for each in node.value]
    if not isinstance(node, yaml.MappingNode):
        raise NotPlainYaml("it holds something that is neither a text, a list nor a map")
    if node.flow_style and node.value:
        raise NotPlainYaml("a map in braces must be empty")
    made: dict[str, Yaml] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
            raise NotPlainYaml("a key must be a plain text")
        name = key.value
        if any(name.lower() == other.lower() for other in made):
            raise NotPlainYaml(f"the key {name[:80]!r} appears twice")
        made[name] = _value(value)
    return made
