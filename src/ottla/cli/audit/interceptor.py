"""`ottla audit interceptor`: makes the jar that lets Java's producers report."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from ottla.audit.interceptor.jar import INTERCEPTOR_CLASS, find_javac, make_interceptor_jar
from ottla.cli.frame.cluster import mode_of, output_options
from ottla.cli.frame.commands import command
from ottla.cli.frame.output import Output

DEFAULT_FILE: Final = Path("ottla-audit-interceptor.jar")


@command(
    "interceptor",
    examples=[
        "ottla audit interceptor",
        "ottla audit interceptor --output libs/audit.jar --kafka-clients libs/kafka-clients-4.1.1.jar",
    ],
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=DEFAULT_FILE,
    show_default=True,
    metavar="FILE",
    help="The jar to write.",
)
@click.option(
    "--kafka-clients",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The jar of Kafka's clients to compile with; by default that of Spark's connector, fetched once.",
)
@output_options
def interceptor(json: bool, quiet: bool, output: Path, kafka_clients: Path | None) -> None:
    """Make the jar with which Java's producers report to the audit.

    It needs a JDK of Java 11 or newer, in JAVA_HOME or on the PATH. A producer takes it by its class path and
    the settings interceptor.classes=ottla.audit.AuditInterceptor and ottla.audit.tier=TIER.
    """
    told = Output(mode_of(json, quiet))
    javac = find_javac()
    if kafka_clients is None:
        from ottla.pipeline.spark.spark_jars import kafka_clients_jar

        kafka_clients = kafka_clients_jar()
    make_interceptor_jar(javac, kafka_clients, output)
    facts = {"file": str(output), "class": INTERCEPTOR_CLASS}
    told.done(f"{output} is made: interceptor.classes={INTERCEPTOR_CLASS}", facts, name="file")
