"""Carries out DDL on a model of a server's tables; no I/O.

Statements about tables and databases are read; the others change no table. What is read of a table is its
columns and keys: what a row event does not tell. Each table map of the stream is compared with the model, so
a statement that is understood wrongly is found before a row is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from ottla.connect.cdc.mariadb.ddl_tokens import Kind, Token, tokens_of
from ottla.connect.cdc.mariadb.model import (
    ALTER,
    CREATE,
    DROP,
    Column,
    Table,
    TableChange,
    TableId,
    Tables,
    UniqueIndex,
    renamed,
)

EPOCH: Final = "1970-01-01 00:00:00"
"""What stands for a default that is the time of the insert."""
_NUMBERS: Final = frozenset(
    {
        *("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "INTEGER", "BIGINT", "MIDDLEINT"),
        *("INT1", "INT2", "INT3", "INT4", "INT8", "FLOAT", "FLOAT4", "FLOAT8", "DOUBLE", "REAL"),
        *("DECIMAL", "DEC", "FIXED", "NUMERIC"),
    }
)
_DECIMALS: Final = frozenset({"DECIMAL", "DEC", "FIXED", "NUMERIC"})
_TEXTS: Final = frozenset(
    {
        *("CHAR", "CHARACTER", "VARCHAR", "NCHAR", "NVARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"),
        *("LONG", "ENUM", "SET"),
    }
)
_SPELLINGS: Final = {
    "INTEGER": "INT",
    "INT1": "TINYINT",
    "INT2": "SMALLINT",
    "INT3": "MEDIUMINT",
    "MIDDLEINT": "MEDIUMINT",
    "INT4": "INT",
    "INT8": "BIGINT",
    "DEC": "DECIMAL",
    "FIXED": "DECIMAL",
    "NUMERIC": "DECIMAL",
    "REAL": "DOUBLE",
    "FLOAT8": "DOUBLE",
    "FLOAT4": "FLOAT",
    "CHARACTER": "CHAR",
    "LONG": "MEDIUMTEXT",
}
"""Types as the server spells them itself: what records look like must not hang on who wrote the DDL."""
_BINARY_OF: Final = {
    "CHAR": "BINARY",
    "CHARACTER": "BINARY",
    "VARCHAR": "VARBINARY",
    "TINYTEXT": "TINYBLOB",
    "TEXT": "BLOB",
    "MEDIUMTEXT": "MEDIUMBLOB",
    "LONGTEXT": "LONGBLOB",
}
_OPTIONS: Final = frozenset({"ENUM", "SET"})
_NOW: Final = frozenset({"CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"})
_INDEX_WORDS: Final = frozenset({"INDEX", "KEY", "FULLTEXT", "SPATIAL", "CHECK", "FOREIGN", "PERIOD"})
_TABLE_SKIPS: Final = frozenset(
    {"VIEW", "FUNCTION", "PROCEDURE", "TRIGGER", "EVENT", "USER", "ROLE", "SEQUENCE"}
)


class DdlError(ValueError):
    """A statement about a table that can't be understood."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a statement did. database: that it is about, "" for none; truncated: tables that are empty now."""

    database: str
    changes: tuple[TableChange, ...] = ()
    truncated: tuple[TableId, ...] = ()


def carry_out(tables: Tables, sql: str, database: str) -> Effect:
    """Carry out a statement of a session whose database is `database`. Raises DdlError."""
    try:
        return _Reader(tables, tokens_of(sql), database).statement()
    except (IndexError, ValueError) as problem:
        raise DdlError(f"{problem}: {sql[:500]}") from problem


@dataclass(slots=True)
class _Reader:
    tables: Tables
    tokens: list[Token]
    database: str
    at: int = 0
    changes: list[TableChange] = field(default_factory=list)

    # -- tokens -------------------------------------------------------------------------------------

    def _peek(self, ahead: int = 0) -> Token | None:
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else None

    def _next(self) -> Token:
        token = self._peek()
        if token is None:
            raise ValueError("the statement ends too early")
        self.at += 1
        return token

    def _sees(self, *words: str) -> bool:
        for ahead, word in enumerate(words):
            token = self._peek(ahead)
            if token is None or (
                token.upper != word and not (token.kind is Kind.MARK and token.text == word)
            ):
                return False
        return True

    def _skip(self, *words: str) -> bool:
        """Go behind these words if they are next."""
        if not self._sees(*words):
            return False
        self.at += len(words)
        return True

    def _skip_any(self, *words: str) -> None:
        while any(self._skip(each) for each in words):
            pass

    def _expect(self, mark: str) -> None:
        if not self._skip(mark):
            token = self._peek()
            raise ValueError(f"{mark} is missing before {'the end' if token is None else token.text}")

    def _name(self) -> str:
        token = self._next()
        if token.kind in (Kind.WORD, Kind.QUOTED, Kind.TEXT):
            return token.text
        raise ValueError(f"{token.text} is no name")

    def _table_id(self) -> TableId:
        name = self._name()
        if self._skip("."):
            return TableId(name, self._name())
        return TableId(self.database, name)

    def _parentheses(self) -> list[Token]:
        """The tokens of what stands in parentheses."""
        self._expect("(")
        begin, depth = self.at, 1
        while depth:
            token = self._next()
            if token.kind is Kind.MARK:
                depth += {"(": 1, ")": -1}.get(token.text, 0)
        return self.tokens[begin : self.at - 1]

    def _exists(self) -> None:
        self._skip("IF", "NOT", "EXISTS")
        self._skip("IF", "EXISTS")

    def _behind_item(self) -> None:
        """To the comma or parenthesis that ends an item of a list."""
        while (token := self._peek()) is not None and not (
            token.kind is Kind.MARK and token.text in (",", ")")
        ):
            if token.kind is Kind.MARK and token.text == "(":
                self._parentheses()
            else:
                self.at += 1

    # -- statements ---------------------------------------------------------------------------------

    def statement(self) -> Effect:
        if self._skip("SET", "STATEMENT"):
            while not self._skip("FOR"):
                self._next()
        if self._skip("TRUNCATE"):
            self._skip("TABLE")
            id = self._table_id()
            return Effect(id.database, (), (id,))
        if self._skip("CREATE"):
            return self._create()
        if self._skip("DROP"):
            return self._drop()
        if self._skip("RENAME", "TABLE") or self._skip("RENAME", "TABLES"):
            return self._rename()
        if self._skip("ALTER"):
            return self._alter()
        if self._skip("USE"):
            return Effect(self._name())
        if self._skip("SET"):
            self._set()
        return Effect("")

    def _done(self, database: str) -> Effect:
        self.tables.apply(self.changes)
        return Effect(database, tuple(self.changes))

    def _set(self) -> None:
        while (token := self._peek()) is not None:
            self.at += 1
            if token.upper == "CHARACTER_SET_SERVER" and self._skip("="):
                self.tables.server_charset = self._name().lower()

    def _create(self) -> Effect:
        or_replace = self._skip("OR", "REPLACE")
        if self._skip("TEMPORARY"):
            return Effect("")
        if self._skip("DATABASE") or self._skip("SCHEMA"):
            self._exists()
            return self._database(self._name())
        if self._skip("TABLE"):
            return self._create_table(or_replace)
        is_unique = self._skip("UNIQUE")
        if is_unique and self._skip("INDEX"):
            return self._create_index()
        return Effect("")

    def _database(self, name: str) -> Effect:
        while (token := self._peek()) is not None:
            self.at += 1
            if token.upper == "CHARSET" or (token.upper == "CHARACTER" and self._skip("SET")):
                self._skip("=")
                self.tables.charsets[name] = self._name().lower()
            elif token.upper == "COLLATE":
                self._skip("=")
                self.tables.charsets.setdefault(name, _charset_of_collation(self._name()))
        return Effect(name)

    def _create_index(self) -> Effect:
        self._exists()
        index = self._name()
        while not self._skip("ON"):
            self._next()
        id = self._table_id()
        table = self.tables.tables.get(id)
        columns = self._key_columns()
        if table is None:
            return Effect(id.database)
        table = replace(table, unique=(*table.unique, UniqueIndex(index, columns)))
        self.changes.append(TableChange(ALTER, id, table))
        return self._done(id.database)

    def _drop(self) -> Effect:
        if self._skip("TEMPORARY"):
            return Effect("")
        if self._skip("DATABASE") or self._skip("SCHEMA"):
            self._exists()
            name = self._name()
            gone = [each for each in self.tables.tables if each.database == name]
            self.tables.apply(TableChange(DROP, each) for each in gone)
            self.tables.charsets.pop(name, None)
            return Effect(name)
        if self._skip("TABLE") or self._skip("TABLES"):
            self._exists()
            while True:
                id = self._table_id()
                self.changes.append(TableChange(DROP, id))
                if not self._skip(","):
                    return self._done(id.database)
        if self._skip("INDEX"):
            self._exists()
            index = self._name()
            self._expect("ON")
            id = self._table_id()
            table = self.tables.tables.get(id)
            if table is not None:
                self.changes.append(TableChange(ALTER, id, _without_index(table, index)))
                return self._done(id.database)
        return Effect("")

    def _rename(self) -> Effect:
        self._exists()
        moved = Tables(dict(self.tables.tables))
        while True:
            old = self._table_id()
            while not self._skip("TO"):  # WAIT n, NOWAIT
                self._next()
            new = self._table_id()
            table = moved.tables.get(old)
            change = TableChange(ALTER, new, None if table is None else renamed(table, new), old)
            if table is not None:
                moved.apply((change,))
                self.changes.append(change)
            if not self._skip(","):
                return self._done(new.database)

    # -- tables -------------------------------------------------------------------------------------

    def _create_table(self, or_replace: bool) -> Effect:
        only_new = self._sees("IF", "NOT", "EXISTS")
        self._exists()
        id = self._table_id()
        existing = self.tables.tables.get(id)
        like = self._like()
        if like is not None:
            table = self.tables.tables.get(like)
            if table is None:
                raise ValueError(f"{like} is not known")
            table = renamed(table, id)
        else:
            table = self._table_body(Table(id, charset=self.tables.charset_of(id.database)))
        if existing is not None and only_new and not or_replace:
            return Effect(id.database)
        self.changes.append(TableChange(CREATE, id, table))
        return self._done(id.database)

    def _like(self) -> TableId | None:
        if self._skip("LIKE"):
            return self._table_id()
        if self._sees("(", "LIKE"):
            self.at += 2
            return self._table_id()
        return None

    def _table_body(self, table: Table) -> Table:
        """Columns and indexes, and the options behind them, whose character set holds for the columns."""
        begin = self.at
        self._parentheses()
        table = self._options(table)
        self.at = begin + 1
        editor = _Editor(table)
        while True:
            self._definition(editor)
            if not self._skip(","):
                break
        self._expect(")")
        return editor.table

    def _options(self, table: Table) -> Table:
        charset = None
        while (token := self._peek()) is not None:
            self.at += 1
            match token.upper:
                case "CHARSET":
                    self._skip("=")
                    charset = self._name().lower()
                case "CHARACTER" if self._skip("SET"):
                    self._skip("=")
                    charset = self._name().lower()
                case "COLLATE":
                    self._skip("=")
                    collation = self._name()
                    charset = charset or _charset_of_collation(collation)
                case "COMMENT":
                    self._skip("=")
                    table = replace(table, comment=self._name())
                case "PARTITION" | "SELECT" | "AS":
                    break
        return table if charset is None else replace(table, charset=charset)

    def _definition(self, editor: _Editor) -> None:
        """A column or an index of CREATE TABLE."""
        if self._is_index():
            self._index(editor)
        else:
            editor.add(self._column(self._name(), editor))
            self._behind_item()

    def _is_index(self) -> bool:
        token = self._peek()
        if token is None or token.kind is not Kind.WORD:
            return False
        if token.upper in ("PRIMARY", "UNIQUE", "CONSTRAINT"):
            return True
        return token.upper in _INDEX_WORDS

    def _index(self, editor: _Editor) -> None:
        name = ""
        if self._skip("CONSTRAINT"):
            token = self._peek()
            if token is not None and token.upper not in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
                name = self._name()
        if self._skip("PRIMARY", "KEY"):
            editor.primary(self._key_columns())
        elif self._skip("UNIQUE"):
            self._skip_any("INDEX", "KEY")
            self._exists()
            if not self._sees("(") and not self._sees("USING"):
                name = self._name()
            columns = self._key_columns()
            editor.unique(name or columns[0], columns)
        self._behind_item()

    def _key_columns(self) -> tuple[str, ...]:
        while not self._sees("("):
            self._next()
        inner = _Reader(self.tables, self._parentheses(), self.database)
        found = []
        while inner._peek() is not None:
            found.append(inner._name())
            inner._behind_item()
            inner._skip(",")
        return tuple(found)

    # -- columns ------------------------------------------------------------------------------------

    def _column(self, name: str, editor: _Editor) -> Column:
        column = self._type(name, editor.table)
        serial = column.type == "SERIAL"
        if serial:
            column = replace(column, type="BIGINT UNSIGNED", is_nullable=False, is_auto_increment=True)
            editor.unique(name, (name,))
        while (token := self._peek()) is not None:
            if token.kind is Kind.MARK and token.text in (",", ")"):
                break
            if token.upper in ("AFTER", "FIRST"):
                break
            self.at += 1
            column = self._attribute(column, token, editor)
        if column.is_nullable and not column.has_default:
            column = replace(column, has_default=True)
        return column

    def _attribute(self, column: Column, token: Token, editor: _Editor) -> Column:
        """The column with what a word behind its type says."""
        match token.upper:
            case "NOT" if self._skip("NULL"):
                column = replace(column, is_nullable=False)
            case "NULL":
                column = replace(column, is_nullable=True)
            case "DEFAULT":
                column = self._default(column)
            case "AUTO_INCREMENT":
                column = replace(column, is_auto_increment=True)
            case "COMMENT":
                column = replace(column, comment=self._name())
            case "PRIMARY":
                self._skip("KEY")
                editor.primary((column.name,))
            case "KEY":
                editor.primary((column.name,))
            case "UNIQUE":
                self._skip("KEY")
                editor.unique(column.name, (column.name,))
            case "CHARSET":
                column = self._with_charset(column, self._name())
            case "CHARACTER" if self._skip("SET"):
                column = self._with_charset(column, self._name())
            case "COLLATE":
                self._skip("=")
                collation = self._name()
                if column.charset is not None:
                    column = self._with_charset(column, _charset_of_collation(collation))
            case "AS" | "GENERATED":
                self._skip("ALWAYS")
                self._skip("AS")
                if self._sees("("):
                    self._parentheses()
            case "ON" if self._skip("UPDATE"):
                self._next()
                if self._sees("("):
                    self._parentheses()
            case "REFERENCES":
                self._behind_item()
            case _:
                if token.kind is Kind.MARK and token.text == "(":
                    self.at -= 1
                    self._parentheses()
        return column

    def _with_charset(self, column: Column, charset: str) -> Column:
        charset = charset.lower()
        if charset == "binary" and column.base_type in _BINARY_OF:
            return replace(column, type=_BINARY_OF[column.base_type], charset=None)
        return replace(column, charset=charset) if column.base_type in _TEXTS else column

    def _type(self, name: str, table: Table) -> Column:
        word = self._next()
        kind = word.upper or word.text.upper()
        if kind in ("BOOL", "BOOLEAN"):
            return Column(name, "TINYINT", 1)
        is_national = kind == "NATIONAL"
        if is_national:
            kind = self._next().upper
        if kind in ("NCHAR", "NVARCHAR"):
            kind, is_national = kind[1:], True
        if kind == "DOUBLE":
            self._skip("PRECISION")
        if kind in ("CHAR", "CHARACTER") and (self._skip("VARYING") or self._skip("VARCHAR")):
            kind = "VARCHAR"
        if kind == "LONG":
            kind = "MEDIUMBLOB" if self._skip("VARBINARY") else kind
            self._skip("VARCHAR")
        kind = _SPELLINGS.get(kind, kind)
        options: tuple[str, ...] = ()
        length = scale = None
        if self._sees("("):
            arguments = self._parentheses()
            if kind in _OPTIONS:
                options = tuple(each.text for each in arguments if each.kind is Kind.TEXT)
            else:
                numbers = [int(each.text) for each in arguments if each.kind is Kind.NUMBER]
                length = numbers[0] if numbers else None
                scale = numbers[1] if len(numbers) > 1 else None
        if kind in _DECIMALS:
            length, scale = 10 if length is None else length, 0 if scale is None else scale
        if kind == "ENUM":
            length = 1
        elif kind == "SET":
            length = max(2 * len(options) - 1, 0)
        elif kind == "BIT" and length is None:
            length = 1
        if kind in _NUMBERS:
            marks = set()
            while (token := self._peek()) is not None and token.upper in ("UNSIGNED", "ZEROFILL", "SIGNED"):
                marks.add(token.upper)
                self.at += 1
            if "ZEROFILL" in marks:
                kind += " UNSIGNED ZEROFILL"
            elif "UNSIGNED" in marks:
                kind += " UNSIGNED"
        charset = table.charset if kind in _TEXTS else None
        if is_national:
            charset = "utf8mb3"
        return Column(name, kind, length, scale, charset, options=options)

    def _default(self, column: Column) -> Column:
        token = self._peek()
        if token is None:
            raise ValueError("the default is missing")
        if token.kind is Kind.MARK and token.text == "(":
            self._parentheses()
            return replace(column, has_default=True, default=None)
        self.at += 1
        if token.kind is Kind.WORD and token.text.startswith("_"):  # a character set before a text
            following = self._peek()
            if following is not None and following.kind in (Kind.TEXT, Kind.HEX):
                token = self._next()
        match token.kind:
            case Kind.TEXT | Kind.NUMBER | Kind.BITS:
                return replace(column, has_default=True, default=token.text)
            case Kind.HEX:
                text = bytes.fromhex(token.text).decode("utf-8", "replace")
                return replace(column, has_default=True, default=text)
            case Kind.MARK if token.text in "+-":
                number = self._next().text
                return replace(
                    column, has_default=True, default=f"-{number}" if token.text == "-" else number
                )
        if self._sees("("):
            self._parentheses()
        if token.upper in _NOW:
            return replace(column, has_default=True, default=EPOCH)
        if token.upper in ("TRUE", "FALSE"):
            return replace(column, has_default=True, default=token.text)
        return replace(column, has_default=True, default=None)

    # -- ALTER --------------------------------------------------------------------------------------

    def _alter(self) -> Effect:
        self._skip_any("ONLINE", "IGNORE")
        if self._skip("DATABASE") or self._skip("SCHEMA"):
            return self._database(self._name())
        if not self._skip("TABLE"):
            return Effect("")
        self._exists()
        id = self._table_id()
        table = self.tables.tables.get(id)
        if table is None:
            raise ValueError(f"{id} is not known")
        if self._skip("WAIT"):
            self._next()
        self._skip("NOWAIT")
        editor = _Editor(table)
        while self._peek() is not None:
            self._alteration(editor)
            self._behind_item()
            if not self._skip(","):
                self._behind_item()
                break
        new = editor.table
        self.changes.append(TableChange(ALTER, new.id, new, None if new.id == id else id))
        return self._done(new.id.database)

    def _alteration(self, editor: _Editor) -> None:
        if self._skip("ADD"):
            self._add(editor)
        elif self._skip("DROP"):
            self._drop_from(editor)
        elif self._skip("MODIFY"):
            self._skip("COLUMN")
            self._exists()
            name = self._name()
            editor.change(name, self._column(name, editor), self._place())
        elif self._skip("CHANGE"):
            self._skip("COLUMN")
            self._exists()
            old, new = self._name(), self._name()
            editor.rename(old, new)
            editor.change(new, self._column(new, editor), self._place())
        elif self._skip("RENAME", "COLUMN"):
            self._exists()
            old = self._name()
            self._expect("TO")
            editor.rename(old, self._name())
        elif self._skip("RENAME", "INDEX") or self._skip("RENAME", "KEY"):
            self._exists()
            old = self._name()
            self._expect("TO")
            editor.rename_index(old, self._name())
        elif self._skip("RENAME"):
            self._skip_any("TO", "AS", "=")
            editor.table = renamed(editor.table, self._table_id())
        elif self._skip("ALTER"):
            self._alter_column(editor)
        elif self._skip("CONVERT", "TO"):
            self._convert(editor)
        else:
            editor.table = self._table_options(editor.table)

    def _add(self, editor: _Editor) -> None:
        if self._is_index():
            self._index(editor)
            return
        self._skip("COLUMN")
        only_new = self._sees("IF", "NOT", "EXISTS")
        self._exists()
        if self._skip("("):
            while True:
                self._definition(editor)
                if not self._skip(","):
                    break
            self._expect(")")
            return
        if self._sees("PARTITION") or self._sees("SYSTEM"):
            return
        column = self._column(self._name(), editor)
        place = self._place()
        if not (only_new and editor.table.find(column.name) >= 0):
            editor.add(column, place)

    def _drop_from(self, editor: _Editor) -> None:
        if self._skip("PRIMARY", "KEY"):
            editor.table = replace(editor.table, primary=())
            return
        if self._skip("INDEX") or self._skip("KEY") or self._skip("CONSTRAINT"):
            self._exists()
            editor.table = _without_index(editor.table, self._name())
            return
        if self._sees("FOREIGN") or self._sees("PARTITION") or self._sees("SYSTEM") or self._sees("PERIOD"):
            self.at += 1
            return
        self._skip("COLUMN")
        self._exists()
        editor.drop(self._name())

    def _alter_column(self, editor: _Editor) -> None:
        if self._skip("INDEX") or self._skip("KEY"):
            return
        self._skip("COLUMN")
        self._exists()
        at = editor.table.find(self._name())
        if at < 0:
            return
        column = editor.table.columns[at]
        if self._skip("SET", "DEFAULT"):
            column = self._default(column)
        elif self._skip("DROP", "DEFAULT"):
            column = replace(column, has_default=column.is_nullable, default=None)
        editor.change(column.name, column, None)

    def _convert(self, editor: _Editor) -> None:
        charset = None
        while (token := self._peek()) is not None and not (token.kind is Kind.MARK and token.text == ","):
            self.at += 1
            if token.upper == "CHARSET" or (token.upper == "CHARACTER" and self._skip("SET")):
                charset = self._name().lower()
        if charset is None:
            return
        columns = tuple(
            replace(each, charset=charset) if each.charset is not None else each
            for each in editor.table.columns
        )
        editor.table = replace(editor.table, charset=charset, columns=columns)

    def _table_options(self, table: Table) -> Table:
        """The options of one item of ALTER TABLE."""
        begin = self.at
        self._behind_item()
        inner = _Reader(self.tables, self.tokens[begin : self.at], self.database)
        return inner._options(table)

    def _place(self) -> str | None:
        """Where a column goes: "" for the first place, behind another one, or None."""
        if self._skip("FIRST"):
            return ""
        return self._name() if self._skip("AFTER") else None


@dataclass(slots=True)
class _Editor:
    """A table that is being changed."""

    table: Table

    def add(self, column: Column, place: str | None = None) -> None:
        columns = list(self.table.columns)
        at = len(columns) if place is None else 0 if place == "" else self.table.find(place) + 1
        columns.insert(at, self._of_key(column))
        self.table = replace(self.table, columns=tuple(columns))

    def change(self, name: str, column: Column, place: str | None) -> None:
        at = self.table.find(name)
        if at < 0:
            raise ValueError(f"{self.table.id} has no column {name}")
        columns = list(self.table.columns)
        columns[at] = self._of_key(column)
        self.table = replace(self.table, columns=tuple(columns))
        if place is not None:
            moved = columns.pop(at)
            self.table = replace(self.table, columns=tuple(columns))
            self.add(moved, place)

    def _of_key(self, column: Column) -> Column:
        keys = {each.lower() for each in self.table.primary}
        return _not_null(column) if column.name.lower() in keys else column

    def drop(self, name: str) -> None:
        lower = name.lower()
        kept = tuple(each for each in self.table.columns if each.name.lower() != lower)
        unique = (
            replace(each, columns=tuple(one for one in each.columns if one.lower() != lower))
            for each in self.table.unique
        )
        self.table = replace(
            self.table,
            columns=kept,
            primary=tuple(each for each in self.table.primary if each.lower() != lower),
            unique=tuple(each for each in unique if each.columns),
        )

    def rename(self, old: str, new: str) -> None:
        at = self.table.find(old)
        if at < 0:
            raise ValueError(f"{self.table.id} has no column {old}")
        columns = list(self.table.columns)
        columns[at] = replace(columns[at], name=new)
        name: Callable[[str], str] = lambda each: new if each.lower() == old.lower() else each  # noqa: E731
        self.table = replace(
            self.table,
            columns=tuple(columns),
            primary=tuple(map(name, self.table.primary)),
            unique=tuple(replace(each, columns=tuple(map(name, each.columns))) for each in self.table.unique),
        )

    def rename_index(self, old: str, new: str) -> None:
        self.table = replace(
            self.table,
            unique=tuple(
                replace(each, name=new) if each.name.lower() == old.lower() else each
                for each in self.table.unique
            ),
        )

    def primary(self, names: tuple[str, ...]) -> None:
        lower = {each.lower() for each in names}
        columns = tuple(
            _not_null(each) if each.name.lower() in lower else each for each in self.table.columns
        )
        self.table = replace(self.table, primary=names, columns=columns)

    def unique(self, name: str, columns: tuple[str, ...]) -> None:
        self.table = replace(self.table, unique=(*self.table.unique, UniqueIndex(name, columns)))


def _not_null(column: Column) -> Column:
    has_default = column.has_default and column.default is not None
    return replace(column, is_nullable=False, has_default=has_default)


def _without_index(table: Table, name: str) -> Table:
    if name.upper() == "PRIMARY":
        return replace(table, primary=())
    return replace(table, unique=tuple(each for each in table.unique if each.name.lower() != name.lower()))


def _charset_of_collation(collation: str) -> str:
    """The character set of a collation: what its name begins with."""
    lower = collation.lower()
    return "utf8mb4" if lower.startswith("uca1400") else lower.partition("_")[0]
