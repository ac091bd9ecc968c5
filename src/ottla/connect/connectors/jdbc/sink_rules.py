"""What a sink's settings say: the names of tables and columns, where keys come from, what may be made."""

from __future__ import annotations

from ottla.config.settings import Settings
from ottla.connect.connectors.jdbc import sink_settings as options
from ottla.connect.connectors.jdbc.database import Database, TableType
from ottla.connect.connectors.jdbc.names import Quoting, TableId, split_name
from ottla.connect.connectors.jdbc.opening import QUOTE_IDENTIFIERS
from ottla.connect.connectors.jdbc.shapes import KAFKA_COLUMNS, Rules
from ottla.connect.connectors.jdbc.sink_settings import InsertMode, KeyMode
from ottla.connect.connectors.jdbc.writing import TableRules


class Naming:
    """What topics and fields are called in a database."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database

    def table(self, topic: str) -> TableId:
        """The table of a topic's records. Raises DataError."""
        # A topic's dots separate as those of the format do, its quotes can't be: topics have none.
        text = self._settings[options.TABLE_NAME_FORMAT].replace(options.TOPIC, topic)
        parts = split_name(text, self._database.mark)
        return self._database.table_of(
            [name if is_quoted else self.column(name) for name, is_quoted in parts]
        )

    def column(self, name: str) -> str:
        """The column of a field."""
        return name if self._settings[QUOTE_IDENTIFIERS] is Quoting.ALWAYS else self._database.folded(name)


def rules_of(settings: Settings, naming: Naming) -> Rules:
    """The rules by which records have shapes."""
    whitelist: tuple[str, ...] = settings[options.FIELDS_WHITELIST]
    return Rules(
        settings[options.INSERT_MODE],
        settings[options.PK_MODE],
        settings[options.PK_FIELDS],
        frozenset(whitelist),
        settings[options.DELETE_ENABLED],
        settings[options.REPLACE_NULL],
        naming.column,
    )


def table_rules(settings: Settings) -> TableRules:
    """What may be done with tables. Raises ConfigError."""
    return TableRules(settings[options.AUTO_CREATE], settings[options.AUTO_EVOLVE], _checked_types(settings))


def _checked_types(settings: Settings) -> frozenset[str]:
    known = {str(each) for each in TableType}
    types = frozenset(each.upper() for each in settings[options.TABLE_TYPES])
    if not types or not types <= known:
        raise settings.refusal(options.TABLE_TYPES.name, f"the types are {', '.join(sorted(known))}")
    return types


def check_keys(settings: Settings) -> None:
    """Raises ConfigError for modes that need a key they don't get."""
    mode, keys = settings[options.INSERT_MODE], settings[options.PK_MODE]
    if mode is InsertMode.UPSERT and keys is KeyMode.NONE:
        raise settings.refusal(options.PK_MODE.name, "an upsert needs a primary key")
    if settings[options.DELETE_ENABLED] and keys is not KeyMode.RECORD_KEY:
        raise settings.refusal(options.DELETE_ENABLED.name, "deleting needs pk.mode=record_key")
    fields = settings[options.PK_FIELDS]
    if keys is KeyMode.KAFKA and len(fields) not in (0, len(KAFKA_COLUMNS)):
        raise settings.refusal(options.PK_FIELDS.name, "with pk.mode=kafka it has three names, or none")
