"""CREATE STREAM and TABLE without columns: the registry is asked for the schemas of their topic."""

from __future__ import annotations

from ottla.client.registry.async_client import RegistryClient
from ottla.client.registry.wire import RegistryRefusal, RegistryUnreachable
from ottla.schemas.format import ParsedSchema
from ottla.sql.binding.source_binder import REGISTRY_FORMATS, given
from ottla.sql.language.errors import SqlError
from ottla.sql.language.statements import CreateSource, Role


async def with_inferred(statement: CreateSource, registry: RegistryClient | None) -> CreateSource:
    """The statement with columns for its key, its value or both, where it has none and a schema has them.

    The schemas are those of KEY_SCHEMA_ID and VALUE_SCHEMA_ID, or the newest of the topic's subjects. A key
    without a schema has no column. Raises SqlError.
    """
    found = given(statement.properties, statement.at)
    topic = found.text("KAFKA_TOPIC")
    roles = {each.role for each in statement.columns}
    of_value = Role.VALUE not in roles and found.format("VALUE_FORMAT", "") in REGISTRY_FORMATS
    is_keyed = Role.KEY in roles or Role.PRIMARY_KEY in roles
    of_key = not is_keyed and found.format("KEY_FORMAT", "KAFKA") in REGISTRY_FORMATS
    if topic is None or not (of_value or of_key):
        return statement
    key = value = None
    if of_key:
        id = found.number("KEY_SCHEMA_ID")
        key = await _schema(statement, registry, f"{topic}-key", id, needed=id is not None)
    if of_value:
        id = found.number("VALUE_SCHEMA_ID")
        value = await _schema(statement, registry, f"{topic}-value", id, needed=True)
    from ottla.sql.lowering.registry_columns import with_columns  # Protobuf and Avro, which take a moment

    return with_columns(statement, key, value)


async def _schema(
    statement: CreateSource, registry: RegistryClient | None, subject: str, id: int | None, *, needed: bool
) -> ParsedSchema | None:
    if registry is None:
        if not needed:
            return None
        raise SqlError(
            f"{statement.name} has no columns, and there is no Schema Registry",
            statement.at,
            "list the columns, or set ksql.schema.registry.url",
        )
    try:
        found = await (registry.latest(subject) if id is None else registry.by_id(id))
    except RegistryRefusal as problem:
        if problem.status != 404:
            raise SqlError(f"the Schema Registry refuses: {problem.message}", statement.at) from None
        if not needed:
            return None
        what = f"subject {subject}" if id is None else f"id {id}"
        raise SqlError(
            f"the registry has no schema of the {what}", statement.at, "list the columns"
        ) from None
    except RegistryUnreachable as problem:
        raise SqlError(f"the Schema Registry does not answer: {problem}", statement.at) from None
    return found.parsed
