"""Kafka Connect 4.3.1's own transforms, predicates and converters, asked about records.

Values and schemas go to Java and come back as JSON, each value with its class: `["i8", 5]`. What ours gives
is told in the same form, so that both can be compared.
"""

from __future__ import annotations

import base64
import decimal
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.connect.data.java_text import decimal_text, double_text, float_text
from ottla.connect.data.record import Record
from ottla.connect.data.schema import Moment, Schema, Struct, Type
from ottla.pipeline.spark.java_runtime import bundled_java
from ottla.pipeline.spark.maven import fetch_jars
from support.java.java_tools import compile_java, jars_of, java_command, tools_classpath

PROGRAM = Path(__file__).with_name("ConnectOracle.java")
PLUGINS_LOCK = Path(__file__).with_name("connect-plugins-4.3.1.jars.lock")
_WHOLE = {Type.INT8: "i8", Type.INT16: "i16", Type.INT32: "i32"}


class RefusedByJava(Exception):
    """Java's exception. kind: its simple class name."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def tell_schema(schema: Schema | None) -> Any:
    """A schema as JSON."""
    if schema is None:
        return None
    return {
        "type": schema.type.name,
        "optional": schema.optional,
        "name": schema.name,
        "version": schema.version,
        "doc": schema.doc,
        "default": tell(schema.default, schema),
        "parameters": dict(schema.parameters),
        "fields": [[each.name, tell_schema(each.schema)] for each in schema.fields],
        "keys": tell_schema(schema.keys),
        "values": tell_schema(schema.values),
    }


def tell(value: Any, schema: Schema | None, *, sort: bool = True) -> Any:
    """A value as JSON, with its class in Java. Without a schema, numbers are Long and Double.

    sort: maps are told in one order, else in their own.
    """
    match value:
        case None:
            return None
        case bool():
            return ["b", value]
        case int():
            tag = "i64" if schema is None else _WHOLE.get(schema.type, "i64")
            return [tag, str(value) if tag == "i64" else value]
        case float():
            if schema is not None and schema.type is Type.FLOAT32:
                return ["f32", float_text(value)]
            return ["f64", double_text(value)]
        case str():
            return ["s", value]
        case bytes():
            return ["y", base64.b64encode(value).decode()]
        case Moment():
            return ["d", value.epoch_ms]
        case decimal.Decimal():
            return ["n", decimal_text(value)]
        case list():
            return ["l", [tell(each, None if schema is None else schema.values, sort=sort) for each in value]]
        case dict():
            keys, values = (None, None) if schema is None else (schema.keys, schema.values)
            entries = [[tell(k, keys, sort=sort), tell(v, values, sort=sort)] for k, v in value.items()]
            return ["m", _sorted(entries) if sort else entries]
        case Struct():
            fields = value.schema.fields
            return [
                "t",
                [[each.name, tell(value.values.get(each.name), each.schema, sort=sort)] for each in fields],
            ]
    raise TypeError(type(value))


def tell_record(record: Record) -> dict[str, Any]:
    """A record as JSON."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "keySchema": tell_schema(record.key_schema),
        "key": tell(record.key, record.key_schema),
        "valueSchema": tell_schema(record.value_schema),
        "value": tell(record.value, record.value_schema),
        "timestamp": record.timestamp_ms,
        "headers": [
            [each.name, tell_schema(each.schema), tell(each.value, each.schema)] for each in record.headers
        ],
    }


def comparable(told: Any, schema: Any) -> Any:
    """Java's value in the form of `tell`: maps in one order, numbers without a schema as Long and Double."""
    if told is None:
        return None
    tag, content = told
    match tag:
        case "l":
            return ["l", [comparable(each, None if schema is None else schema["values"]) for each in content]]
        case "m":
            keys, values = (None, None) if schema is None else (schema["keys"], schema["values"])
            return ["m", _sorted([[comparable(k, keys), comparable(v, values)] for k, v in content])]
        case "t":
            schemas = dict(schema["fields"]) if schema is not None else {}
            return ["t", [[name, comparable(each, schemas.get(name))] for name, each in content]]
        case "i8" | "i16" | "i32" if schema is None:
            return ["i64", str(content)]
        case "f32" if schema is None:
            return ["f64", content]
    return told


def comparable_schema(told: Any) -> Any:
    """Java's schema with the values in it in the form of `tell`."""
    if told is None:
        return None
    return {
        **told,
        "default": comparable(told["default"], told),
        "fields": [[name, comparable_schema(each)] for name, each in told["fields"]],
        "keys": comparable_schema(told["keys"]),
        "values": comparable_schema(told["values"]),
    }


def comparable_record(told: dict[str, Any]) -> dict[str, Any]:
    """Java's record in the form of `tell_record`."""
    return {
        **told,
        "keySchema": comparable_schema(told["keySchema"]),
        "key": comparable(told["key"], told["keySchema"]),
        "valueSchema": comparable_schema(told["valueSchema"]),
        "value": comparable(told["value"], told["valueSchema"]),
        "headers": [
            [name, comparable_schema(schema), comparable(value, schema)]
            for name, schema, value in told["headers"]
        ],
    }


def _sorted(entries: list[Any]) -> list[Any]:
    return sorted(entries, key=json.dumps)


@dataclass(frozen=True, slots=True)
class ConnectOracle:
    """One Java process; a question and an answer a line."""

    process: subprocess.Popen[str]

    def transformed(self, name: str, config: Mapping[str, str], record: Record) -> dict[str, Any] | None:
        """The record that a transform gives, as `tell_record` tells it. Raises RefusedByJava."""
        answer = self.ask("transform", {"class": name, "config": config, "record": _asked(record)})
        found = answer["record"]
        return None if found is None else comparable_record(found)

    def holds(self, name: str, config: Mapping[str, str], record: Record) -> bool:
        """Whether a predicate holds for a record."""
        answer = self.ask("predicate", {"class": name, "config": config, "record": _asked(record)})
        return bool(answer["holds"])

    def data_of(
        self, name: str, config: Mapping[str, str], schema: Schema | None, value: Any, ask: str = "from"
    ) -> bytes | None:
        """The bytes that a converter writes. Raises RefusedByJava."""
        question = {"schema": tell_schema(schema), "value": tell(value, schema, sort=False)}
        answer = self.ask(ask, {"class": name, "config": config, **question})
        return None if answer["data"] is None else base64.b64decode(answer["data"])

    def value_of(
        self, name: str, config: Mapping[str, str], data: bytes | None, ask: str = "to"
    ) -> tuple[Any, Any]:
        """The schema and value that a converter reads, as `tell` tells them. Raises RefusedByJava."""
        text = None if data is None else base64.b64encode(data).decode()
        return _found(self.ask(ask, {"class": name, "config": config, "data": text}))

    def parsed(self, text: str) -> tuple[Any, Any]:
        """The schema and value that Values.parseString finds in a text."""
        return _found(self.ask("parse", {"text": text}))

    def forget(self) -> None:
        """Let the program make its next transform anew, even of the same configuration."""
        self.ask("forget", {})

    def ask(self, ask: str, question: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to any question. Raises RefusedByJava."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"ask": ask, **question}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the Java program ended"
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            # The program's maps keep their order; a converter's are of the class HashMap.
            message = answer["message"].replace("java.util.LinkedHashMap", "java.util.HashMap")
            raise RefusedByJava(answer["error"], message)
        return answer


def _asked(record: Record) -> dict[str, Any]:
    return tell_record(record) | {"offset": record.offset}


def _found(answer: dict[str, Any]) -> tuple[Any, Any]:
    return comparable_schema(answer["schema"]), comparable(answer["value"], answer["schema"])


@contextmanager
def connect_oracle(directory: Path, jars: Path | None = None) -> Iterator[ConnectOracle]:
    """Compiles the program into `directory` and runs it. jars: the lock file of further plugins."""
    locks = [PLUGINS_LOCK, *([] if jars is None else [jars])]
    fetched = [str(path) for lock in locks for path in fetch_jars(jars_of(lock))]
    class_path = compile_java([PROGRAM], os.pathsep.join([*fetched, tools_classpath()]), directory)
    flags = ("-Xmx256m", "-XX:+UseSerialGC", "-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US")
    # Before Java 19, Double.toString wrote more digits than it needs.
    java = str(bundled_java().executable)
    command = [java, *java_command("ConnectOracle", flags=flags, class_path=class_path)[1:]]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        bufsize=1,
    ) as process:
        try:
            yield ConnectOracle(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
