"""The context of each step of an application's start: name, settings, cluster and Spark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.client.cluster import KafkaCluster
from ottla.pipeline.query.query import QueryRunner
from ottla.pipeline.spark.session import SparkPipelineSession
from ottla.streams.run.settings import StreamsSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class RunContext:
    """The application that starts. `name` is its id."""

    name: str
    settings: StreamsSettings
    cluster: KafkaCluster
    session: SparkPipelineSession
    runner: QueryRunner

    @property
    def spark(self) -> SparkSession:
        return self.session.spark

    @property
    def directory(self) -> Path:
        """The directory of everything that the application keeps."""
        return self.settings.place.state / self.name
