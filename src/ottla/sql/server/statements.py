"""Statements that came to /ksql, one after the other, each with ksqlDB's answer."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from ottla.client.errors import ClusterError, NoSuchTopic
from ottla.client.registry.async_client import RegistryClient
from ottla.client.registry.wire import RegistryRefusal, RegistryUnreachable
from ottla.sql.binding.statement_binder import Binder
from ottla.sql.catalog.sources import Source, closest
from ottla.sql.commands.command import Command
from ottla.sql.commands.deciding import Asked, controlled, planned, with_property
from ottla.sql.commands.state import PersistentQuery, SqlState
from ottla.sql.language.errors import START, SqlError
from ottla.sql.language.parser import Parsed, parse_script
from ottla.sql.language.statements import (
    AssertSchema,
    AssertTopic,
    ControlQuery,
    CreateAsSelect,
    CreateConnector,
    CreateSource,
    Define,
    Describe,
    Described,
    Drop,
    Droppable,
    Explain,
    InsertValues,
    Listed,
    Print,
    QueryAction,
    RunScript,
    Select,
    SetProperty,
    Show,
    Statement,
    Undefine,
    UnsetProperty,
)
from ottla.sql.plan.query_plan import QueryPlan
from ottla.sql.plan.statement_plan import (
    Nothing,
    PutQuery,
    PutSource,
    RemoveSource,
    RunQuery,
    StatementPlan,
    WriteRow,
)
from ottla.sql.rows.bodies import plain_property
from ottla.sql.rows.port import RowQueries
from ottla.sql.rows.schema_json import schema_json
from ottla.sql.server import entities
from ottla.sql.server.connectors import Connectors
from ottla.sql.server.entities import Entity, entity
from ottla.sql.server.inferring import with_inferred
from ottla.sql.server.node import SqlNode
from ottla.sql.server.properties import check_property, properties_list
from ottla.sql.types.sql_types import quoted
from ottla.web.errors import ApiError, ServiceError

MAX_STATEMENTS: Final = 10_000
MAX_SCRIPT_BYTES: Final = 1 << 20
ASSERT_SECONDS: Final = 1.0
ASSERT_LOOK_SECONDS: Final = 0.1
ENDING_SECONDS: Final = 30.0
OK: Final = "ok"
ERROR: Final = "error"
UNPARSED: Final = "unparsed"


class StatementError(Exception):
    """A statement that could not be carried out, with the answers to those before it."""

    def __init__(self, problem: SqlError, statement: str, script: str, before: list[Entity]) -> None:
        super().__init__(problem.message)
        self.problem = problem
        self.statement = statement
        self.script = script
        self.before = before


@dataclass(slots=True)
class Session:
    """What a request gives for its statements. properties: SET and UNSET change them as they go."""

    properties: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)


class Statements:
    """Carries out statements on a node. registry: None without one."""

    def __init__(
        self, node: SqlNode, rows: RowQueries, connectors: Connectors, registry: RegistryClient | None
    ) -> None:
        self._node = node
        self._rows = rows
        self._connectors = connectors
        self._registry = registry
        self.outcomes: Counter[tuple[str, str]] = Counter()
        """By the statement's name and how it went: ok or error."""

    async def run(self, script: str, session: Session) -> list[Entity]:
        """Carry out a script's statements in order. Raises StatementError, ApiError."""
        answers: list[Entity] = []
        text, is_parsed = "", False
        try:
            for number, parsed in enumerate(parse_script(script, session.variables)):
                text, is_parsed = parsed.text, True
                if number >= MAX_STATEMENTS:
                    raise SqlError(f"there are more than {MAX_STATEMENTS} statements", parsed.statement.at)
                answer = await self._one(parsed, session)
                if answer is not None:
                    answers.append(answer)
                is_parsed = False
        except SqlError as problem:
            if not is_parsed:
                self.outcomes[UNPARSED, ERROR] += 1
            raise StatementError(problem, text or script, script, answers) from None
        return answers

    async def _one(self, parsed: Parsed, session: Session) -> Entity | None:
        name, outcome = type(parsed.statement).__name__, ERROR
        try:
            answer = await self._carried_out(parsed, session)
            outcome = OK
        finally:
            self.outcomes[name, outcome] += 1
        return answer

    async def _carried_out(self, parsed: Parsed, session: Session) -> Entity | None:
        statement, text = parsed.statement, parsed.text
        match statement:
            case Show():
                return await self._show(statement, text, session)
            case Describe():
                return await self._describe(statement, text)
            case Explain():
                return self._explain(statement, text)
            case ControlQuery():
                return await self._control(statement, text, session)
            case SetProperty(system=True):
                return await self._alter_system(statement, text, session)
            case SetProperty(name=name, value=value):
                check_property(name, statement.at)
                session.properties[plain_property(name)] = value
                return None
            case UnsetProperty(name=name):
                if name is None:
                    session.properties.clear()
                else:
                    session.properties.pop(plain_property(name), None)
                return None
            case Define(name=name, value=value):
                session.variables[name] = value
                return None
            case Undefine(name=name):
                session.variables.pop(name, None)
                return None
            case CreateConnector():
                return await self._connectors.create(statement, text)
            case Drop(what=Droppable.CONNECTOR):
                return await self._connectors.drop(statement, text)
            case AssertTopic():
                return await self._assert_topic(statement, text)
            case AssertSchema():
                return await self._assert_schema(statement, text)
            case RunScript(path=path):
                script = await asyncio.to_thread(_read, path, statement)
                found = await self.run(script, session)
                return entity("run_script", text, content=f"{path}: {len(found)} answers", answers=found)
            case Select():
                raise SqlError(
                    "SELECT and PRINT give rows: ask /query or /query-stream for them", statement.at
                )
            case Print():
                raise SqlError("PRINT gives rows: ask /query for them", statement.at)
        return await self._change(parsed, session)

    async def terminate_service(self, delete_topics: Iterable[str]) -> None:
        """End all queries, drop all streams and tables, and delete the topics that patterns name."""
        state = self._node.state
        patterns = [re.compile(each) for each in delete_topics]
        session = Session()
        await self.run("TERMINATE ALL;", session)
        for source in list(state.catalog.sources.values()):
            deletes = not source.read_only and any(each.fullmatch(source.topic) for each in patterns)
            words = f"DROP {source.kind.value} IF EXISTS {quoted(source.name)}"
            await self.run(f"{words}{' DELETE TOPIC' if deletes else ''};", session)

    async def run_file(self, path: str) -> None:
        """Headless: the statements of a file, each once, however often the server starts.

        What is there already, made by the very same text, is left as it is. Raises ServiceError.
        """
        try:
            text = await asyncio.to_thread(Path(path).read_text, "utf-8")
            session = Session()
            for parsed in parse_script(text):
                is_setting = isinstance(parsed.statement, SetProperty | UnsetProperty | Define | Undefine)
                if is_setting or (self._node.is_primary and not self._is_done(parsed)):
                    await self._one(parsed, session)
        except (OSError, UnicodeDecodeError) as problem:
            raise ServiceError(f"ottla sql server: ksql.queries.file {path}: {problem}") from None
        except SqlError as problem:
            raise ServiceError(f"ottla sql server: {path}: {problem.shown(text)}") from None
        except ApiError as problem:
            raise ServiceError(f"ottla sql server: {path}: {problem.message}") from None

    def _is_done(self, parsed: Parsed) -> bool:
        """Whether a statement of the file was carried out by an earlier start."""
        return any(each.statement == parsed.text for each in self._node.state.commands.values())

    # -- changes --------------------------------------------------------------------------------------

    async def _change(self, parsed: Parsed, session: Session) -> Entity | None:
        statement, text = parsed.statement, parsed.text
        if isinstance(statement, CreateSource):
            statement = await with_inferred(statement, self._registry)
        plan = self._bound(self._node.state, statement)
        if isinstance(plan, Nothing):
            return entities.warned(text, plan.reason)
        if isinstance(plan, WriteRow):
            assert isinstance(statement, InsertValues)
            await self._rows.insert(plan, session.properties)
            return None
        if isinstance(plan, PutQuery):
            await asyncio.to_thread(self._check_lowering, plan, session)
        if isinstance(plan, RemoveSource):
            planned(self._node.state, plan, self._asked(parsed, session))  # refused before a topic is touched
        completed = await asyncio.to_thread(self._node.topics.completed, plan, statement.at)

        def decide(state: SqlState) -> Command:
            bound = self._bound(state, statement)
            if isinstance(bound, Nothing):
                raise SqlError(bound.reason, statement.at)
            return planned(state, _with_topic(bound, completed), self._asked(parsed, session))

        command = await self._node.carry_out(decide)
        if isinstance(plan, RemoveSource) and plan.delete_topic:
            await self._delete_topic(plan, statement)
        return entities.current_status(command, text)

    def _bound(self, state: SqlState, statement: Statement) -> StatementPlan:
        return Binder(state.catalog, self._node.functions).bind(statement)

    def _check_lowering(self, plan: PutQuery, session: Session) -> None:
        """What Spark can't run is refused now, not when it starts. Raises SqlError."""
        from ottla.sql.running.checking import check_runs  # PySpark, which takes a moment

        check_runs(plan, self._node.functions, self._node.registry)

    def _asked(self, parsed: Parsed, session: Session) -> Asked:
        replaces = isinstance(parsed.statement, CreateSource | CreateAsSelect) and parsed.statement.or_replace
        properties = {**self._node.default_properties, **session.properties}
        now_ms = time.time_ns() // 1_000_000
        return Asked(parsed.text, parsed.statement.at, now_ms, properties, replaces)

    async def _delete_topic(self, plan: RemoveSource, statement: Statement) -> None:
        # A query that still writes would make the topic anew on some clusters.
        await self._node.queries.until_gone(ENDING_SECONDS)
        try:
            await asyncio.to_thread(self._node.topics.delete, plan.topic)
        except ClusterError as problem:
            raise SqlError(
                f"{plan.name} is dropped, and its topic {plan.topic} is still there: {problem}", statement.at
            ) from None

    async def _control(self, statement: ControlQuery, text: str, session: Session) -> Entity:
        if statement.action is QueryAction.TERMINATE and statement.query_id is not None:
            wanted = statement.query_id.upper()
            for push in self._rows.running():
                if push.query_id.upper() == wanted and await self._rows.close(push.query_id):
                    return entity("warning_entity", text, message="Query terminated.")
        asked = Asked(text, statement.at, time.time_ns() // 1_000_000, session.properties)
        command = await self._node.carry_out(lambda state: controlled(state, statement, asked))
        return entities.current_status(command, text)

    async def _alter_system(self, statement: SetProperty, text: str, session: Session) -> Entity:
        check_property(statement.name, statement.at)
        asked = Asked(text, statement.at, time.time_ns() // 1_000_000, session.properties)
        command = await self._node.carry_out(
            lambda state: with_property(state, plain_property(statement.name), statement.value, asked)
        )
        return entities.current_status(command, text)

    # -- questions ------------------------------------------------------------------------------------

    async def _show(self, statement: Show, text: str, session: Session) -> Entity:
        state = self._node.state
        sources = state.catalog.sources.values()
        match statement.what:
            case Listed.STREAMS | Listed.TABLES as what:
                chosen = [each for each in sources if each.is_table is (what is Listed.TABLES)]
                if statement.extended:
                    return self._descriptions(chosen, text)
                return entities.sources_list(what.value.lower(), text, chosen)
            case Listed.TOPICS | Listed.ALL_TOPICS as what:
                return await self._topics(text, what is Listed.ALL_TOPICS, statement.extended)
            case Listed.QUERIES:
                return self._queries(statement, text)
            case Listed.FUNCTIONS:
                return entities.functions_list(text, self._node.functions.named)
            case Listed.PROPERTIES:
                return properties_list(text, self._node, session.properties)
            case Listed.TYPES:
                return entities.types_list(text, state.catalog.types)
            case Listed.VARIABLES:
                rows = [{"name": name, "value": value} for name, value in sorted(session.variables.items())]
                return entity("variables", text, variables=rows)
            case what:
                return await self._connectors.list(what, text, statement.at)

    async def _topics(self, text: str, every: bool, extended: bool) -> Entity:
        cluster = self._node.cluster

        def look() -> list[Entity]:
            rows: list[Entity] = []
            for name in sorted(cluster.topic_names()):
                if not every and name.startswith(("_", self._node.service_id + "ksql_processing")):
                    continue
                try:
                    partitions = len(cluster.partitions(name))
                except NoSuchTopic:
                    continue
                replicas = cluster.replicas(name)
                rows.append({"name": name, "replicaInfo": [replicas] * partitions})
            return rows

        try:
            rows = await asyncio.to_thread(look)
        except ClusterError as problem:
            raise SqlError(f"the cluster: {problem}", START) from None
        if extended:
            reads: dict[str, int] = {}
            for query in self._node.state.queries.values():
                for each in query.plan.query.sources:
                    reads[each.source.topic] = reads.get(each.source.topic, 0) + 1
            for row in rows:
                count = reads.get(row["name"], 0)
                row |= {"consumerCount": count, "consumerGroupCount": count}
            return entity("kafka_topics_extended", text, topics=rows)
        return entity("kafka_topics", text, topics=rows)

    def _queries(self, statement: Show, text: str) -> Entity:
        queries = self._node.state.queries.values()
        if statement.extended:
            found = [self._described_query(each) for each in queries]
            return entity("queryDescriptions", text, queryDescriptions=found)
        rows = [entities.query_row(each, self._node.queries.life(each.id)) for each in queries]
        rows += [entities.push_row(each.query_id, each.text) for each in self._rows.running()]
        return entity("queries", text, queries=rows)

    async def _describe(self, statement: Describe, text: str) -> Entity:
        catalog, name = self._node.state.catalog, statement.name
        match statement.what:
            case Described.STREAMS | Described.TABLES as what:
                tables = what is Described.TABLES
                chosen = [each for each in catalog.sources.values() if each.is_table is tables]
                return self._descriptions(chosen, text)
            case Described.FUNCTION:
                assert name is not None
                function = self._node.functions.find(name.upper())
                if function is None:
                    advice = closest(name.upper(), self._node.functions.named)
                    raise SqlError(f"there is no function {name}", statement.at, advice)
                return entities.described_function(text, function)
            case Described.CONNECTOR:
                assert name is not None
                return await self._connectors.describe(name, text, statement.at)
        assert name is not None
        source = catalog.source(name, statement.at)
        found = entities.source_description(
            source, self._node.state, self._node.lives, extended=statement.extended
        )
        return entity("sourceDescription", text, sourceDescription=found)

    def _descriptions(self, chosen: Iterable[Source], text: str) -> Entity:
        found = [
            entities.source_description(each, self._node.state, self._node.lives, extended=True)
            for each in chosen
        ]
        return entity("source_descriptions", text, sourceDescriptions=found)

    def _explain(self, statement: Explain, text: str) -> Entity:
        state = self._node.state
        if statement.statement is None:
            wanted = (statement.query_id or "").upper()
            id = next((each for each in state.queries if each.upper() == wanted), None)
            if id is None:
                raise SqlError(
                    f"there is no query {statement.query_id}",
                    statement.at,
                    "queries: " + (", ".join(state.queries) or "none"),
                )
            found = self._described_query(state.queries[id])
            return entity("queryDescription", text, queryDescription=found)
        plan = self._bound(state, statement.statement)
        if not isinstance(plan, PutQuery | RunQuery):
            raise SqlError("EXPLAIN is for queries", statement.at)
        sinks = [plan.target.name] if isinstance(plan, PutQuery) else []
        fields = []
        for each in plan.query.projection:
            field_of = {"name": each.name, "schema": schema_json(each.expression.type)}
            fields.append(field_of | ({"type": "KEY"} if each.key else {}))
        found = {
            "id": "",
            "statementText": text,
            "windowType": None if plan.query.window is None else plan.query.window.kind.value,
            "fields": fields,
            "sources": [each.source.name for each in plan.query.sources],
            "sinks": sinks,
            "topology": "",
            "executionPlan": _explained(plan.query),
            "overriddenProperties": {},
            "ksqlHostQueryStatus": {},
            "queryType": "PERSISTENT" if sinks else plan.query.mode.value.upper(),
            "queryErrors": [],
            "tasksMetadata": [],
            "state": None,
        }
        return entity("queryDescription", text, queryDescription=found)

    def _described_query(self, query: PersistentQuery) -> Entity:
        plan = _explained(query.plan.query)
        return entities.query_description(query, self._node.queries.life(query.id), plan, "")

    # -- ASSERT ---------------------------------------------------------------------------------------

    async def _assert_topic(self, statement: AssertTopic, text: str) -> Entity:
        wanted = {name.lower(): each.value for name, each in statement.properties.items()}

        def look() -> str | None:
            try:
                partitions = len(self._node.cluster.partitions(statement.topic))
            except NoSuchTopic:
                return None if not statement.exists else f"the topic {statement.topic} does not exist"
            if not statement.exists:
                return f"the topic {statement.topic} exists"
            if "partitions" in wanted and int(str(wanted["partitions"])) != partitions:
                return f"the topic {statement.topic} has {partitions} partitions"
            if "replicas" in wanted:
                replicas = self._node.cluster.replicas(statement.topic)
                if int(str(wanted["replicas"])) != replicas:
                    return f"the topic {statement.topic} has {replicas} replicas"
            return None

        deadline = time.monotonic() + _seconds(statement.timeout_ms)
        while (problem := await asyncio.to_thread(look)) is not None:
            if time.monotonic() > deadline:
                raise SqlError(problem, statement.at)
            await asyncio.sleep(ASSERT_LOOK_SECONDS)
        return entity("assert_topic", text, topicName=statement.topic, exists=statement.exists)

    async def _assert_schema(self, statement: AssertSchema, text: str) -> Entity:
        if self._registry is None:
            raise SqlError("there is no Schema Registry", statement.at, "set ksql.schema.registry.url")
        deadline = time.monotonic() + _seconds(statement.timeout_ms)
        while (found := await self._has_schema(statement, self._registry)) is not statement.exists:
            if time.monotonic() > deadline:
                what = " ".join(
                    each
                    for each in (
                        None if statement.subject is None else f"subject {statement.subject}",
                        None if statement.schema_id is None else f"id {statement.schema_id}",
                    )
                    if each is not None
                )
                raise SqlError(
                    f"the schema of {what} {'exists' if found else 'does not exist'}", statement.at
                )
            await asyncio.sleep(ASSERT_LOOK_SECONDS)
        return entity(
            "assert_schema",
            text,
            subject=statement.subject,
            id=statement.schema_id,
            exists=statement.exists,
        )

    async def _has_schema(self, statement: AssertSchema, registry: RegistryClient) -> bool:
        try:
            return await has_schema(registry, statement.subject, statement.schema_id)
        except RegistryRefusal as problem:
            if problem.status == 404:
                return False
            raise SqlError(f"the Schema Registry refuses: {problem.message}", statement.at) from None
        except RegistryUnreachable as problem:
            raise SqlError(f"the Schema Registry does not answer: {problem}", statement.at) from None


async def has_schema(registry: RegistryClient, subject: str | None, schema_id: int | None) -> bool:
    """Whether the registry has a subject, an id, or the id under the subject. Raises RegistryRefusal."""
    if schema_id is None:
        assert subject is not None
        await registry.latest(subject)
        return True
    found = await registry.by_id(schema_id)
    return subject is None or await registry.version_under(found, subject) is not None


def _with_topic(bound: StatementPlan, completed: StatementPlan) -> StatementPlan:
    """A plan bound at its turn, with its topic as it was found or made before."""
    match bound, completed:
        case PutSource(source=source), PutSource(source=made):
            return PutSource(replace(source, partitions=made.partitions, replicas=made.replicas))
        case PutQuery(target=target, creates=True), PutQuery(target=made):
            kept = replace(target, topic=made.topic, partitions=made.partitions, replicas=made.replicas)
            return replace(bound, target=kept)
    return bound


def _explained(query: QueryPlan) -> str:
    from ottla.sql.lowering.explain import explained  # PySpark, which takes a moment

    return explained(query)


def _seconds(timeout_ms: int | None) -> float:
    return ASSERT_SECONDS if timeout_ms is None else timeout_ms / 1000


def _read(path: str, statement: RunScript) -> str:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_SCRIPT_BYTES + 1)
        if len(data) > MAX_SCRIPT_BYTES:
            raise SqlError(f"{path} is larger than {MAX_SCRIPT_BYTES} bytes", statement.at)
        return data.decode()
    except (OSError, UnicodeDecodeError) as problem:
        raise SqlError(f"the script {path} can't be read: {problem}", statement.at) from None
