"""Definitions of configuration keys and their validated values, in the JSON of Connect's REST API."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.config.setting import ConfigType, InvalidValue, Setting, Table
from ottla.config.validators import Range
from ottla.connect.plugins.required import Required, is_required, missing


class Width(enum.StrEnum):
    """How wide a form's field for the value is."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


@dataclass(frozen=True, slots=True)
class Definition:
    """A key, and its place in a form. order: in its group. recommended: values that a form may offer."""

    setting: Setting[Any]
    group: str | None = None
    order: int = -1
    width: Width = Width.NONE
    display_name: str = ""
    prefix: str = ""
    recommended: tuple[str, ...] = ()
    default: str | None = None
    """In place of the setting's default, where the worker's settings give another."""
    must_be_given: bool = False
    """Told as a key without a default, though the worker itself gives it a value."""
    named: str | None = None
    """In errors, in place of the name."""

    @property
    def name(self) -> str:
        """The key as a configuration has it."""
        return self.prefix + self.setting.name

    @property
    def required(self) -> bool:
        """Whether a configuration without the key is refused."""
        return self.must_be_given or is_required(self.setting)

    @property
    def default_text(self) -> str | None:
        """The value of a configuration without the key."""
        return self.setting.default_text if self.default is None else self.default

    def as_json(self) -> dict[str, Any]:
        """See ConfigKeyInfo in Connect's API."""
        return {
            "name": self.name,
            "type": self.setting.type.name,
            "required": self.required,
            "default_value": None if self.required else self.default_text,
            "importance": self.setting.importance.name,
            "documentation": self.setting.doc,
            "group": self.group,
            "order_in_group": self.order,
            "width": self.width,
            "display_name": self.display_name or self.setting.name,
            "dependents": [],
        }


@dataclass(slots=True)
class Value:
    """A key's value in one configuration, and what is wrong with it. definition: None for an unknown key."""

    name: str
    text: str | None = None
    errors: list[str] = field(default_factory=list)
    recommended: Sequence[str] = ()
    definition: Definition | None = None

    def as_json(self) -> dict[str, Any]:
        """See ConfigInfo in Connect's API."""
        return {
            "definition": None if self.definition is None else self.definition.as_json(),
            "value": {
                "name": self.name,
                "value": self.text,
                "recommended_values": list(self.recommended),
                "errors": self.errors,
                "visible": True,
            },
        }


NON_NULL: Final = "Value must be non-null"


def definitions_of(table: Table, prefix: str = "", group: str | None = None) -> list[Definition]:
    """The definitions of a plugin's own settings; those in a group have their places in it."""
    return [
        Definition(setting, group, -1 if group is None else place, prefix=prefix)
        for place, setting in enumerate(each for each in table.settings.values() if not each.internal)
    ]


def value_of(definition: Definition, text: str | None, *, is_reference: bool = False) -> Value:
    """A key's value in a configuration, None where it is not given.

    is_reference: the text stands for a value that the worker looks up when the task starts. It is shown as it
    is, and not judged.
    """
    found = Value(definition.name, recommended=definition.recommended, definition=definition)
    if is_reference:
        found.text = text
    elif text is None:
        if definition.required:
            found.errors += [missing(definition.name), *_of_no_list(definition.setting)]
        else:
            found.text = definition.default_text
    else:
        _judge(definition, text, found)
    return found


def _of_no_list(setting: Setting[Any]) -> list[str]:
    """What Kafka says besides of a list that is missing: it checks the value that is not there."""
    check = setting.check
    if setting.type is not ConfigType.LIST or not isinstance(check, Required) or check.further is None:
        return []
    problem = check.further(())
    return [] if problem is None else [problem]


def _judge(definition: Definition, text: str, found: Value) -> None:
    setting = definition.setting
    try:
        value = setting.kind.read(text.strip())
    except ValueError:
        try:
            setting.parse(text)
        except InvalidValue as invalid:
            found.errors.append(_said(definition, invalid))
            # Kafka goes on to check that there is a value within the range.
            if isinstance(setting.check, Range):
                found.errors.append(
                    f"Invalid value null for configuration {definition.named or definition.name}: {NON_NULL}"
                )
        return
    found.text = setting.format(value)
    try:
        setting.validate(value)
    except InvalidValue as invalid:
        found.errors.append(_said(definition, invalid))


def _said(definition: Definition, invalid: InvalidValue) -> str:
    name = definition.named or definition.name
    return f"Invalid value {invalid.value} for configuration {name}: {invalid.problem}"
