"""What a query asks for to find new rows, and the place that a row is in: Confluent's offsets.

The order is that of the timestamps, then of the numbers. A timestamp is read only when the server's clock,
less the delay, has passed it: rows that get it later would be missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol
from zoneinfo import ZoneInfo

from ottla.connect.connectors.jdbc.columns import moment_ns
from ottla.connect.connectors.jdbc.moments import NS, NS_PER_MS
from ottla.connect.data.record import SourceOffset, SourcePartition
from ottla.connect.data.schema import DataError

PROTOCOL: Final = "1"
_INCREMENTING: Final = "incrementing"
_TIMESTAMP: Final = "timestamp"
_NANOS: Final = "timestamp_nanos"


class Sql(Protocol):
    """What a database's SQL has to have for a criterion."""

    placeholder: ClassVar[str]

    def moment(self, expression: str) -> str: ...

    def moment_parameter(self, epoch_ns: int) -> Any: ...


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the order of reading: everything up to it was read. None: from the start."""

    number: int | None = None
    epoch_ns: int | None = None

    @classmethod
    def of(cls, offset: SourceOffset | None) -> Place:
        """The place of an offset. Raises DataError for one that is none of this connector's."""
        if offset is None:
            return cls()
        number, ms, nanos = (offset.get(each) for each in (_INCREMENTING, _TIMESTAMP, _NANOS))
        if not all(
            each is None or (isinstance(each, int) and not isinstance(each, bool))
            for each in (number, ms, nanos)
        ):
            raise DataError(f"the offset {dict(offset)} is none of this connector's")
        if ms is None:
            return cls(number)
        return cls(number, ms // 1000 * NS + nanos if nanos is not None else ms * NS_PER_MS)

    @property
    def offset(self) -> dict[str, int]:
        """The offset of the place, as Confluent's connector has it."""
        found: dict[str, int] = {}
        if self.number is not None:
            found[_INCREMENTING] = self.number
        if self.epoch_ns is not None:
            found[_TIMESTAMP] = self.epoch_ns // NS_PER_MS
            found[_NANOS] = self.epoch_ns % NS
        return found


@dataclass(frozen=True, slots=True)
class Criteria:
    """The columns that say what is new. Their names stand in rows; the expressions in SQL."""

    number: str | None = None
    number_sql: str = ""
    moments: tuple[str, ...] = ()
    moments_sql: tuple[str, ...] = ()

    def condition(self, sql: Sql, place: Place, until_ns: int) -> tuple[str, list[Any]]:
        """WHERE … ORDER BY … for the rows behind a place, and its parameters."""
        mark = sql.placeholder
        conditions: list[str] = []
        parameters: list[Any] = []
        order: list[str] = []
        if self.moments:
            moment = self._moment(sql)
            order.append(moment)
            conditions.append(f"{moment} < {mark}")
            parameters.append(sql.moment_parameter(until_ns))
            if place.epoch_ns is not None:
                begin = sql.moment_parameter(place.epoch_ns)
                if self.number is not None and place.number is not None:
                    conditions.append(
                        f"({moment} > {mark} OR ({moment} = {mark} AND {self.number_sql} > {mark}))"
                    )
                    parameters += [begin, begin, place.number]
                else:
                    conditions.append(f"{moment} > {mark}")
                    parameters.append(begin)
        elif self.number is not None and place.number is not None:
            conditions.append(f"{self.number_sql} > {mark}")
            parameters.append(place.number)
        if self.number is not None:
            order.append(self.number_sql)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"{where} ORDER BY {', '.join(order)}" if order else where, parameters

    def _moment(self, sql: Sql) -> str:
        moments = [sql.moment(each) for each in self.moments_sql]
        return moments[0] if len(moments) == 1 else f"COALESCE({', '.join(moments)})"

    @property
    def is_unique(self) -> bool:
        """Whether no two rows have one place."""
        return self.number is not None

    def place_of(self, names: Sequence[str], row: Sequence[Any], zone: ZoneInfo) -> Place:
        """The place of a row. Raises DataError for a row without one."""
        number = None if self.number is None else _number(row[_index(names, self.number)], self.number)
        if not self.moments:
            return Place(number)
        for each in self.moments:
            value = row[_index(names, each)]
            if value is not None:
                return Place(number, moment_ns(value, zone))
        raise DataError(f"a row has no timestamp in {', '.join(self.moments)}")


def table_partition(table: str) -> SourcePartition:
    """The source partition of a table."""
    return {"protocol": PROTOCOL, "table": table}


QUERY_PARTITION: Final[SourcePartition] = {"query": "query"}


def _index(names: Sequence[str], name: str) -> int:
    if name in names:
        return names.index(name)
    folded = [each.lower() for each in names]
    if name.lower() in folded:
        return folded.index(name.lower())
    raise DataError(f"there is no column {name!r} among {', '.join(names)}")


def _number(value: Any, name: str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or number != value:
        raise DataError(f"the column {name!r} has {str(value)[:100]!r}, which is no whole number")
    return number
