"""Names of topics and schemas, as Debezium's SchemaTopicNamingStrategy and its adjusters make them."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

MAX_TOPIC_CHARACTERS: Final = 249
_TOPIC: Final = frozenset("._-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_FIRST: Final = frozenset("_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_AVRO: Final = _TOPIC - {"-"}


class Adjustment(enum.StrEnum):
    """schema.name.adjustment.mode: which characters of names are replaced."""

    NONE = "none"
    AVRO = "avro"
    AVRO_UNICODE = "avro_unicode"


def adjusted(name: str, mode: Adjustment) -> str:
    """A schema's name that Avro takes, where it has to be one."""
    if mode is Adjustment.NONE:
        return name
    found = []
    for at, character in enumerate(name):
        if mode is Adjustment.AVRO_UNICODE and character == "_":
            found.append("_u005f")  # it begins what stands for others
        elif character in (_AVRO if at else _FIRST):
            found.append(character)
        elif mode is Adjustment.AVRO_UNICODE:
            found.append(f"_u{ord(character):04x}")
        else:
            # A leading digit is kept: names that differ only there stay different.
            found.append(f"_{character}" if at == 0 and character.isdigit() else "_")
    return "".join(found)


def topic_name(name: str) -> str:
    """A topic's name with each character that topics can't have replaced by _."""
    found = "".join(each if each in _TOPIC else "_" for each in name)[:MAX_TOPIC_CHARACTERS]
    return "_" * len(found) if found in (".", "..") else found


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one connector's topics and schemas. parts of a table: its schema and name."""

    prefix: str
    delimiter: str = "."
    heartbeat_prefix: str = "__debezium-heartbeat"
    transaction: str = "transaction"
    adjustment: Adjustment = Adjustment.NONE

    def table_topic(self, *parts: str) -> str:
        """The topic of a table's changes."""
        return topic_name(self.delimiter.join((self.prefix, *(each for each in parts if each.strip()))))

    def heartbeat_topic(self) -> str:
        """The topic of heartbeats."""
        return self.delimiter.join((self.heartbeat_prefix, self.prefix))

    def transaction_topic(self) -> str:
        """The topic of the beginnings and ends of transactions."""
        return self.delimiter.join((self.prefix, self.transaction))

    def schema(self, topic: str, kind: str) -> str:
        """The name of the schema of a table's key, value or envelope."""
        return adjusted(f"{topic}.{kind}", self.adjustment)
