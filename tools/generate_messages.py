"""Writes `ottla/protocol/messages` and `ottla/protocol/records` from the field tables in Apache Kafka's jars.

    python tools/generate_messages.py kafka-clients-4.4.0.jar kafka-metadata-4.4.0.jar …

The jars hold one JSON file a message: names, types, versions, tags and defaults are taken over, the sentences
around them are not. Requests, responses and headers become modules of `messages`; all else (metadata
records, keys and values of the coordinators, quorum and log records, the consumer protocol) modules of
`records`. A message with no valid version is left out; the package's docstring names it. With `--check`
nothing is written and the exit code says whether the modules on disk are what would have been written.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

PROTOCOL = Path(__file__).resolve().parent.parent / "src" / "ottla" / "protocol"
SOURCE_DIRECTORIES = ("common/message/", "common/metadata/", "message/")

FUNCTIONS = {
    "int8": ("int8", "int"),
    "int16": ("int16", "int"),
    "uint16": ("uint16", "int"),
    "int32": ("int32", "int"),
    "uint32": ("uint32", "int"),
    "int64": ("int64", "int"),
    "float64": ("float64", "float"),
    "bool": ("boolean", "bool"),
    "uuid": ("uuid128", "uuid.UUID"),
    "string": ("string", "str"),
    "bytes": ("binary", "bytes"),
    "records": ("record_bytes", "Buffer"),
}


def read_tables(jars: list[Path]) -> list[dict[str, Any]]:
    """Every message table in the jars, by name."""
    tables = []
    for jar in jars:
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                if entry.endswith(".json") and entry.startswith(SOURCE_DIRECTORIES):
                    text = re.sub(r"(?m)^\s*//.*$", "", archive.read(entry).decode())
                    tables.append(json.loads(text))
    return sorted(tables, key=lambda table: str(table["name"]))


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def generate(tables: list[dict[str, Any]]) -> dict[str, str]:
    """The source of each module, unformatted, by its path below `protocol`."""
    modules = {}
    missing = []
    for table in tables:
        if table["validVersions"] == "none":
            missing.append(str(table["name"]))
            continue
        package = "messages" if table["type"] in ("request", "response", "header") else "records"
        modules[f"{package}/{snake_case(table['name'])}.py"] = _Module(table).source()
    left_out = f"Without a version in Kafka 4.4, and therefore not here: {', '.join(missing)}."
    modules["messages/__init__.py"] = (
        '"""Requests, responses and their headers: one module a message, generated from Kafka\'s tables.\n\n'
        f'{_wrap(left_out)}\n"""\n'
    )
    return modules


def _wrap(text: str) -> str:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > 105:
            lines.append("")
        lines[-1] += f"{' ' if lines[-1] else ''}{word}"
    return "\n".join(lines)


class _Module:
    """The source of one message's module."""

    def __init__(self, table: dict[str, Any]) -> None:
        self.table = table
        self.used: set[str] = {"Message"}
        self.common = {entry["name"]: entry for entry in table.get("commonStructs", [])}
        self.classes: list[str] = []
        self.done: set[str] = set()

    def source(self) -> str:
        table = self.table
        name = table["name"]
        self.struct(name, table["fields"], table["validVersions"], self.heading())
        imports = f"from ottla.protocol.schema import {', '.join(sorted(self.used))}\n"
        body = "\n\n".join(self.classes)
        standard = "import uuid\n\n" if "uuid.UUID" in body else ""
        return (
            f'"""{self.docstring()}"""\n\nfrom __future__ import annotations\n\n{standard}{imports}\n\n{body}'
        )

    def docstring(self) -> str:
        table = self.table
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", table["name"])
        match table["type"]:
            case "request" | "response" as kind:
                what = f"{table['name'].removesuffix(kind.capitalize())} {kind} (API key {table['apiKey']})"
            case "metadata":
                what = f"{words}: metadata record (type {table['apiKey']})"
            case "coordinator-key":
                what = f"{words}: a coordinator's record key (type {table['apiKey']})"
            case "coordinator-value":
                what = f"{words}: a coordinator's record value (type {table['apiKey']})"
            case _:
                what = words
        valid = table["validVersions"]
        versions = f"versions {valid}" if "-" in valid else f"version {valid}"
        flexible = table["flexibleVersions"]
        shape = "never flexible" if flexible == "none" else f"flexible from {flexible.rstrip('+')}"
        unstable = f", {valid.rpartition('-')[2]} unstable" if table.get("latestVersionUnstable") else ""
        return f"{what}: {versions}{unstable}, {shape}. Generated by tools/generate_messages.py."

    def heading(self) -> str:
        table = self.table
        words = [f'versions="{table["validVersions"]}"']
        if table["flexibleVersions"] != "none":
            words.append(f'flexible="{table["flexibleVersions"]}"')
        words.append(f'kind="{table["type"]}"')
        if "apiKey" in table:
            words.append(f"api_key={table['apiKey']}")
        if table.get("latestVersionUnstable"):
            words.append("unstable=1")
        return f"Message, {', '.join(words)}"

    def struct(self, name: str, fields: list[dict[str, Any]], versions: str, bases: str) -> None:
        """Append the class of a struct, after those that it needs."""
        if name in self.done:
            return
        self.done.add(name)
        lines = [self.field(field) for field in fields]
        body = "\n".join(f"    {line}" for line in lines or ["pass"])
        self.classes.append(f"class {name}({bases}):\n{body}")

    def field(self, field: dict[str, Any]) -> str:
        name = snake_case(field["name"])
        array = field["type"].startswith("[]")
        kind = field["type"].removeprefix("[]")
        tagged = field.get("taggedVersions", "none")
        words = [f'"{field.get("versions", tagged)}"']
        if kind in FUNCTIONS:
            function, hint = FUNCTIONS[kind]
            self.used.add(function)
            if kind == "records":
                self.used.add("Buffer")
        else:
            nested = field.get("fields") or self.common[kind]["fields"]
            self.used.add("Struct")
            self.struct(kind, nested, "", "Struct")
            function, hint = "struct_of", kind
            words.insert(0, kind)
        if array:
            if function == "struct_of":
                function, hint = "array_of", f"list[{hint}]"
            else:
                words.insert(0, function)
                function, hint = "array_of", f"list[{hint}]"
        if function in ("array_of", "struct_of"):
            self.used.add(function)
        nullable = field.get("nullableVersions", "none")
        default = _default(field, kind, array, nullable)
        if nullable != "none":
            words.append(f'nullable="{nullable}"')
            hint += " | None"
        if default is not None:
            words.append(f"default={default}")
        if "tag" in field:
            words.append(f'tag={field["tag"]}, tagged="{tagged}"')
        if field.get("ignorable") in (True, "true"):
            words.append("ignorable=True")
        if field.get("flexibleVersions") == "none":
            words.append("flexible=False")
        return f"{name}: {hint} = {function}({', '.join(words)})"


def _default(field: dict[str, Any], kind: str, array: bool, nullable: str) -> str | None:
    """The source text of a field's default where it is not the type's own.

    The default is null only where the table says "null" in quotes: Kafka's generator takes a bare null as "no
    default given", and the bytes of tagged fields depend on it.
    """
    given = field.get("default")
    if given == "null":
        return "None"
    if array or kind not in FUNCTIONS:
        return None
    if kind == "records":
        return "None" if nullable.endswith("+") else None
    if given is None or given == "":
        return None
    text = str(given).lower()
    match kind:
        case "bool":
            return "True" if text == "true" else None
        case "string":
            return repr(str(given))
        case "float64":
            return repr(float(text)) if float(text) else None
        case _:
            value = int(text, 0)
            return str(value) if value else None


def ruff_format(sources: dict[str, str]) -> dict[str, str]:
    """The sources as the project's formatter and import sorter write them."""
    ruff = [sys.executable, "-m", "ruff"]
    config = ["--config", str(PROTOCOL.parents[2] / "pyproject.toml"), "--quiet", "--no-cache", "."]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for path, source in sources.items():
            (directory / path).parent.mkdir(exist_ok=True)
            (directory / path).write_text(source)
        subprocess.run([*ruff, "check", "--select", "I", "--fix", *config], check=True, cwd=directory)
        subprocess.run([*ruff, "format", *config], check=True, cwd=directory)
        return {path: (directory / path).read_text() for path in sources}


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Writes the message modules from the tables in Kafka's jars."
    )
    parser.add_argument("jars", nargs="+", type=Path)
    parser.add_argument("--check", action="store_true", help="compare with the modules, write nothing")
    arguments = parser.parse_args()
    modules = ruff_format(generate(read_tables(arguments.jars)))
    different = [
        path
        for path, source in modules.items()
        if not (PROTOCOL / path).exists() or (PROTOCOL / path).read_text() != source
    ]
    if arguments.check:
        for path in different:
            print(f"differs: {path}")
        return 1 if different else 0
    for path in different:
        (PROTOCOL / path).write_text(modules[path])
    print(f"{len(modules)} modules, {len(different)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
