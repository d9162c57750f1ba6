"""A YAML file as plain values, each with its line, and with ``${NAME}`` taken from the environment.

Nothing here knows what the keys mean. The nodes are read without ruamel's constructors: they would turn ``10m`` and times into
objects of their own, while every check here wants the text that a person wrote. Numbers and flags keep their text, too: a
password may look like a number, and ``012345`` is not ``12345``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from dts_assets.errors import ConfigErrors, ConfigMistake

Place: TypeAlias = tuple[str | int, ...]
"""Keys and list indexes from the top of the file down to a value."""

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[^}]*)\}?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TAG = "tag:yaml.org,2002:"
_UNSET = "unset"
"""The stand-in for the value of a variable that is not set.

It is not empty, so that no check takes it for a value that was left out.
"""


class WrittenWhole(int):
    """A whole number with its text."""

    text: str


class WrittenFraction(float):
    """A number with its text."""

    text: str


class WrittenFlag(int):
    """A flag with its text, as 1 or 0: no class can be derived from ``bool``."""

    text: str


_Value = TypeVar("_Value", WrittenWhole, WrittenFraction, WrittenFlag)


@dataclass(slots=True)
class Document:
    """A configuration file before anything in it was judged.

    ``lines`` has the line (from 1) of every key and list item, ``written`` the text of every scalar as it stands in the file: a
    message shows that text and so never a value of the environment. ``mistakes`` were found on the way. The values at the places
    ``spoiled`` are placeholders; ``unset`` are the variables that are missing, each of which is one mistake wherever it stands.
    """

    file: str
    environment: Mapping[str, str] = field(repr=False)
    values: Any = field(default_factory=dict)
    lines: dict[Place, int] = field(default_factory=dict)
    written: dict[Place, str] = field(default_factory=dict)
    mistakes: list[tuple[Place, ConfigMistake]] = field(default_factory=list)
    spoiled: set[Place] = field(default_factory=set)
    unset: set[str] = field(default_factory=set)

    def mistake(self, place: Place, message: str, fix: str) -> ConfigMistake:
        """Return a mistake at a place of this file; the nearest thing around it may lend its line."""
        around = place
        while around and around not in self.lines:
            around = around[:-1]
        return ConfigMistake(self.file, self.lines.get(around), dotted(place), message, fix)

    def value(self, node: Node, place: Place, *, above: tuple[Node, ...] = ()) -> Any:
        """Return the plain value of a node; a node inside itself, which anchors allow, is a mistake."""
        if any(node is other for other in above):
            self._mistake(place, "the alias points at a value that contains it", "write the value out")
            return None
        self.lines.setdefault(place, node.start_mark.line + 1)
        above = (*above, node)
        if isinstance(node, MappingNode):
            return self._mapping(node, place, above)
        if isinstance(node, SequenceNode):
            return [self.value(item, (*place, index), above=above) for index, item in enumerate(node.value)]
        assert isinstance(node, ScalarNode)  # the third and last kind
        return self._scalar(node, place)

    def _mapping(self, node: MappingNode, place: Place, above: tuple[Node, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        inherited: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                self.lines[place] = key_node.start_mark.line + 1
                self._mistake(place, "a key is not a plain text", "write the key as one word")
                continue
            key = str(key_node.value)
            if str(key_node.tag) == f"{_TAG}merge":
                merged = self.value(value_node, place, above=above)
                for part in merged if isinstance(merged, list) else [merged]:
                    inherited = {**part, **inherited} if isinstance(part, dict) else inherited
                continue
            inner = (*place, key)
            self.lines[inner] = key_node.start_mark.line + 1
            if key in found:
                self._mistake(inner, "the key stands here a second time", "keep one of the two")
                continue
            found[key] = self.value(value_node, inner, above=above)
        return {**inherited, **found}

    def _scalar(self, node: ScalarNode, place: Place) -> Any:
        text = str(node.value)
        self.written[place] = text
        kind = str(node.tag).removeprefix(_TAG)
        if kind == "null":
            return None
        if kind == "bool":
            return _with_text(WrittenFlag(text.lower() == "true"), text)
        if kind in ("int", "float"):
            return _number(text, kind)
        return self._substituted(text, place)

    def _substituted(self, text: str, place: Place) -> str:
        def value_of(found: re.Match[str]) -> str:
            if found.group() == "$${":
                return "${"
            name = found.group("name")
            if not _NAME.fullmatch(name) or not found.group().endswith("}"):
                self._mistake(
                    place,
                    f"{found.group()} names no environment variable",
                    "write ${NAME} with letters, digits and _, or $${ for the two characters themselves",
                )
            elif name not in self.environment:
                self.spoiled.add(place)
                if name not in self.unset:
                    self.unset.add(name)
                    self._mistake(place, f"the environment has no variable {name}", f"set {name} in the environment")
            return self.environment.get(name, _UNSET)

        return _REFERENCE.sub(value_of, text)

    def _mistake(self, place: Place, message: str, fix: str) -> None:
        line = self.lines.get(place)
        self.spoiled.add(place)
        self.mistakes.append((place, ConfigMistake(self.file, line, dotted(place), message, fix)))


def dotted(place: Place) -> str:
    """Return a place as people write it: ``subscriptions.shop.tables.include[0]``."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def read_document(file: Path, environment: Mapping[str, str]) -> Document:
    """Return a file's document.

    Raises:
        ConfigErrors: there is nothing to judge: no file, no text, no YAML.
    """
    name = shown(file)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        fix = "create it, or say --config FILE or DTS_ASSETS_CONFIG"
        raise ConfigErrors(_unreadable(name, "there is no such file", fix)) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        fix = "make it a readable UTF-8 text file"
        raise ConfigErrors(_unreadable(name, f"it cannot be read ({reason})", fix)) from None
    return document_of(text, name, environment)


def document_of(text: str, name: str, environment: Mapping[str, str]) -> Document:
    """Return the document of a text; messages call it by ``name``.

    Raises:
        ConfigErrors: the text is no YAML.
    """
    try:
        root = YAML(typ="rt", pure=True).compose(text)
    except MarkedYAMLError as error:
        raise ConfigErrors(_not_yaml(name, error, text.splitlines())) from None
    except YAMLError:
        raise ConfigErrors(_unreadable(name, "it is not YAML", "remove what is no plain text")) from None
    document = Document(name, environment)
    if root is not None:
        document.values = document.value(root, ())
    return document


def shown(file: Path) -> str:
    """Return a path as messages show it: relative where that is shorter."""
    try:
        return str(file.relative_to(Path.cwd()))
    except ValueError:
        return str(file)


def _number(text: str, kind: str) -> int | float | str:
    try:
        if kind == "float":
            return _with_text(WrittenFraction(text), text)
        return _with_text(WrittenWhole(text, 0 if text[:2] in ("0x", "0o") else 10), text)
    except ValueError:  # such as .inf: no key wants one, so the checks may judge the text
        return text


def _with_text(value: _Value, text: str) -> _Value:
    value.text = text
    return value


def _unreadable(file: str, message: str, fix: str) -> tuple[ConfigMistake]:
    return (ConfigMistake(file, None, "", message, fix),)


def _not_yaml(file: str, error: MarkedYAMLError, lines: list[str]) -> tuple[ConfigMistake]:
    mark = error.problem_mark or error.context_mark
    number = None if mark is None else mark.line + 1
    problem = " ".join(str(error.problem or error.context or "the text cannot be read").split())
    written = lines[number - 1] if number is not None and number <= len(lines) else ""
    fix = "mend the line, or look at the one above it"
    if "alias" in f"{problem} {error.context}":
        fix = 'put quotes around a value that begins with *, as in "*"'
    elif "${" in written:
        fix = 'put quotes around "${NAME}" where it stands between braces'
    elif "\t" in written:
        fix = "indent with blanks, not with tabs"
    return (ConfigMistake(file, number, "", f"it is not YAML ({problem})", fix),)
