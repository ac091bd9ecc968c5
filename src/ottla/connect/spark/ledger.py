"""The ledger of an exactly-once sink: how far a target has a connector's records, written with the records.

A ledger belongs to a connector of a cluster (`Owner`). Each commit to the target carries the whole ledger
after it: the generation of the connector's offsets, the next offset of each partition, and a number that
counts the commits. Whoever commits must have seen the ledger before it, so of two runs that write from one
place, one is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.config.errors import UserError

Offsets = dict[str, dict[int, int]]
"""The next offset to read, by topic and partition."""

MAX_LEDGER_CHARACTERS: Final = 1 << 24
_VERSION: Final = 1
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9]+")
_NAME_CHARACTERS: Final = 40
_HASH_CHARACTERS: Final = 12


class LedgerError(UserError):
    """A ledger that can't be read, or is another run's; the message says what to do."""


class Fenced(LedgerError):
    """Another run of the connector has written since: this one must end, and the next one reads the
    ledger.
    """


@dataclass(frozen=True, slots=True)
class Owner:
    """The connector that a ledger belongs to."""

    cluster: str
    connector: str

    @property
    def slug(self) -> str:
        """A name of letters, digits and `-`, in which no two connectors agree."""
        digest = hashlib.sha256(f"{self.cluster}\0{self.connector}".encode()).hexdigest()
        name = _UNSAFE.sub("-", self.connector).strip("-")[:_NAME_CHARACTERS]
        return f"{name}-{digest[:_HASH_CHARACTERS]}".lstrip("-")


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a target has. generation: of the connector's offsets, raised by each change of them from outside.

    sequence: how many commits there were, this one included. ends: the next offset of each partition.
    """

    generation: int
    sequence: int
    ends: Mapping[str, Mapping[int, int]]

    def after(self, ends: Mapping[str, Mapping[int, int]]) -> Ledger:
        """The ledger once records up to these offsets are there, too."""
        merged = {topic: dict(partitions) for topic, partitions in self.ends.items()}
        for topic, partitions in ends.items():
            merged.setdefault(topic, {}).update(partitions)
        return Ledger(self.generation, self.sequence + 1, merged)

    def has(self, ends: Mapping[str, Mapping[int, int]]) -> bool:
        """Whether everything up to these offsets is there."""
        return all(
            self.ends.get(topic, {}).get(partition, -1) >= offset
            for topic, partitions in ends.items()
            for partition, offset in partitions.items()
        )

    def text(self, owner: Owner) -> str:
        """The ledger as JSON."""
        offsets = {
            topic: {str(partition): offset for partition, offset in sorted(partitions.items())}
            for topic, partitions in sorted(self.ends.items())
        }
        return json.dumps(
            {
                "version": _VERSION,
                "cluster": owner.cluster,
                "connector": owner.connector,
                "generation": self.generation,
                "sequence": self.sequence,
                "offsets": offsets,
            },
            separators=(",", ":"),
        )


def begun(generation: int, ends: Mapping[str, Mapping[int, int]], before: Ledger | None) -> Ledger:
    """The first ledger of a generation: nothing of it is written yet, and it goes on at these offsets."""
    return Ledger(generation, 1 if before is None else before.sequence + 1, ends)


def read_ledger(text: str, owner: Owner) -> Ledger | None:
    """The ledger of a JSON text, or None where it is another connector's. Raises LedgerError."""
    if len(text) > MAX_LEDGER_CHARACTERS:
        raise LedgerError(f"a ledger of {len(text)} characters is longer than {MAX_LEDGER_CHARACTERS}")
    try:
        found: Any = json.loads(text)
        if (found["cluster"], found["connector"]) != (owner.cluster, owner.connector):
            return None
        if found["version"] != _VERSION:
            raise LedgerError(
                f"the ledger of {owner.connector} has version {found['version']}, not {_VERSION}"
            )
        ends = {
            str(topic): {int(partition): _count(offset) for partition, offset in partitions.items()}
            for topic, partitions in found["offsets"].items()
        }
        return Ledger(_count(found["generation"]), _count(found["sequence"]), ends)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        shown = text if len(text) <= 200 else f"{text[:200]}…"
        raise LedgerError(f"the ledger of {owner.connector} can't be read: {shown}") from None


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(value)
    return value
