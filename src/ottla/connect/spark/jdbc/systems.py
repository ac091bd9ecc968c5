"""The SQL of a stage: a table that the tasks fill, and what is taken from it into the target.

A stage has the target's columns as c0, c1 ..., with their types but without their rules, and what is needed
to tell which record of a key is the last. Keys are compared by the database, with the types and collations of
the target: what is one key there may be two texts to Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla.connect.connectors.jdbc.address import System
from ottla.connect.connectors.jdbc.database import STAGE_PREFIX, Database
from ottla.connect.connectors.jdbc.names import TableId
from ottla.connect.connectors.jdbc.shapes import Operation, Shape
from ottla.connect.connectors.jdbc.writing import sql_name

PLACES: Final = ("part", "pos", "gone")
"""The columns of a stage before those of the target: partition and offset, whether the record deletes."""
_LEFT_BEHIND: Final = {
    System.POSTGRESQL: "SELECT relname FROM pg_class WHERE relkind = 'r' AND pg_table_is_visible(oid)"
    " AND left(relname, {length}) = '{prefix}'",
    System.MARIADB: "SELECT table_name FROM information_schema.tables WHERE table_schema = database()"
    " AND left(table_name, {length}) = '{prefix}'",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """The stage of one table and shape. name: a word of letters, digits and _, which needs no quotes."""

    system: System
    name: str
    table: TableId
    shape: Shape

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns but for `attempt`, the first."""
        return (*PLACES, *(f"c{at}" for at in range(len(self.shape.columns))))

    def creation(self, database: Database) -> str:
        """The statement that makes it."""
        names = [database.quote(each.name) for each in self.shape.columns]
        copied = ", ".join(f"t.{name} AS c{at}" for at, name in enumerate(names))
        target = sql_name(database, self.table)
        if self.system is System.POSTGRESQL:
            own = "NULL::bigint AS attempt, NULL::int AS part, NULL::bigint AS pos, NULL::boolean AS gone"
            return f"CREATE UNLOGGED TABLE {self.name} AS SELECT {own}, {copied} FROM {target} t WITH NO DATA"
        own = "attempt BIGINT, part INT, pos BIGINT, gone BOOLEAN"
        # of an outer join, so that no column is NOT NULL
        rows = f"(SELECT 1 AS one) o LEFT JOIN {target} t ON FALSE LIMIT 0"
        return f"CREATE TABLE {self.name} ({own}) ENGINE = InnoDB SELECT {copied} FROM {rows}"

    def taking(self, database: Database, attempts: Sequence[int], deletes: bool) -> list[str]:
        """The statements that do to the target what the records of some attempts say, in their order.

        deletes: whether there are records that delete. A row of a key that one deletes goes first, whatever
        came later, so that it begins anew with the columns that the later records have.
        """
        chosen = f"attempt IN ({', '.join(map(str, attempts))})"
        keys = [(database.quote(each.name), f"c{at}") for at, each in enumerate(self.shape.keys)]
        others = [
            (database.quote(each.name), f"c{at}")
            for at, each in enumerate(self.shape.others, start=len(keys))
        ]
        target = sql_name(database, self.table)
        statements = []
        if deletes:
            gone = f"(SELECT DISTINCT {_listed(keys)} FROM {self.name} WHERE {chosen} AND gone) s"
            if self.system is System.POSTGRESQL:
                statements.append(f"DELETE FROM {target} t USING {gone} WHERE {_same(keys)}")
            else:
                statements.append(f"DELETE t FROM {target} t JOIN {gone} ON {_same(keys)}")
        names = ", ".join(name for name, _ in keys + others)
        match self.shape.operation:
            case Operation.INSERT:
                rows = self._inserted(chosen, keys, others, deletes)
                statements.append(f"INSERT INTO {target} ({names}) {rows}")
            case Operation.UPSERT:
                tail = database.upsert_tail(
                    [each.name for each in self.shape.keys], [each.name for each in self.shape.others]
                )
                statements.append(f"INSERT INTO {target} ({names}) {self._last(chosen, keys, others)}{tail}")
            case Operation.UPDATE:
                rows = f"({self._last(chosen, keys, others)}) s"
                if self.system is System.POSTGRESQL:
                    changes = ", ".join(f"{name} = s.{column}" for name, column in others)
                    statements.append(f"UPDATE {target} t SET {changes} FROM {rows} WHERE {_same(keys)}")
                else:
                    changes = ", ".join(f"t.{name} = s.{column}" for name, column in others)
                    statements.append(f"UPDATE {target} t JOIN {rows} ON {_same(keys)} SET {changes}")
            case Operation.DELETE:
                pass
        return statements

    def _last(self, chosen: str, keys: Sequence[tuple[str, str]], others: Sequence[tuple[str, str]]) -> str:
        """The last row of each key that does not delete, if nothing behind it deletes."""
        rank = f"ROW_NUMBER() OVER (PARTITION BY {_listed(keys)} ORDER BY pos DESC, part DESC) AS place"
        listed = _listed([*keys, *others])
        ranked = f"SELECT {listed}, gone, {rank} FROM {self.name} WHERE {chosen}"
        # WHERE ends what would else be read as a join, before ON DUPLICATE KEY
        return f"SELECT {listed} FROM ({ranked}) r WHERE place = 1 AND NOT gone"

    def _inserted(
        self, chosen: str, keys: Sequence[tuple[str, str]], others: Sequence[tuple[str, str]], deletes: bool
    ) -> str:
        """All rows behind the last record that deletes their key."""
        listed = _listed([*keys, *others])
        if not deletes:
            return f"SELECT {listed} FROM {self.name} WHERE {chosen}"
        later = (
            f"SUM(CASE WHEN gone THEN 1 ELSE 0 END) OVER (PARTITION BY {_listed(keys)}"
            " ORDER BY pos DESC, part DESC ROWS UNBOUNDED PRECEDING) AS later"
        )
        counted = f"SELECT {listed}, gone, {later} FROM {self.name} WHERE {chosen}"
        return f"SELECT {listed} FROM ({counted}) r WHERE later = 0 AND NOT gone"


def left_behind(database: Database, system: System, prefix: str) -> list[str]:
    """The stages whose names begin so, of runs that were killed. prefix: letters, digits and _."""
    statement = _LEFT_BEHIND[system].format(length=len(prefix), prefix=prefix)
    return [str(name) for (name,) in database.select(statement)]


def stage_prefix(digest: str) -> str:
    """How the names of a connector's stages begin."""
    return f"{STAGE_PREFIX}{digest}_"


def _listed(columns: Sequence[tuple[str, str]]) -> str:
    return ", ".join(column for _, column in columns)


def _same(keys: Sequence[tuple[str, str]]) -> str:
    return " AND ".join(f"t.{name} = s.{column}" for name, column in keys)
