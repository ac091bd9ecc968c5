"""The settings of the file sink: names of Confluent's S3 and HDFS sinks, where they make sense here."""

from __future__ import annotations

import enum
from typing import Final

from ottla.config.setting import (
    Importance,
    Table,
    by_name,
    choice,
    integer,
    long,
    string,
    string_list,
    text_or_none,
)
from ottla.config.validators import at_least
from ottla.connect.spark.settings import COMMON

HADOOP_PREFIX: Final = "ottla.hadoop."


class NullValues(enum.StrEnum):
    """What becomes of records without a value."""

    IGNORE = "ignore"
    FAIL = "fail"


URL: Final = text_or_none(
    "ottla.url", None, "The directory of the files, of any file system of Hadoop.", importance=Importance.HIGH
)
BUCKET: Final = text_or_none("s3.bucket.name", None, "The bucket, as s3a://BUCKET.")
STORE_URL: Final = text_or_none("store.url", None, "The server of S3, or the URL of HDFS.")
HDFS_URL: Final = text_or_none("hdfs.url", None, "The directory on HDFS.")
TOPICS_DIR: Final = string("topics.dir", "topics", "The directory of all topics, in that one.")
FORMAT: Final = string(
    "format.class", "parquet", "The format: parquet, json, csv, orc, or the name of Confluent's class."
)
PARTITIONER: Final = string(
    "partitioner.class",
    "DefaultPartitioner",
    "How files are put into directories: Default-, Field-, Daily-, Hourly- or TimeBasedPartitioner.",
)
PARTITION_FIELDS: Final = string_list(
    "partition.field.name", (), "The fields that name directories, for FieldPartitioner."
)
PATH_FORMAT: Final = string(
    "path.format",
    "",
    "The directories of TimeBasedPartitioner, as 'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH.",
)
PARTITION_DURATION_MS: Final = long("partition.duration.ms", -1, "Directories begin at multiples of this.")
TIMEZONE: Final = string("timezone", "UTC", "The time zone of directories by time.")
TIMESTAMP: Final = string(
    "timestamp.extractor", "Wallclock", "Which time decides: Wallclock, Record or RecordField."
)
TIMESTAMP_FIELD: Final = string("timestamp.field", "timestamp", "The field with the time, for RecordField.")
FLUSH_SIZE: Final = integer(
    "flush.size", 1_000_000, "The most records of a file; so many waiting records begin a batch.", at_least(1)
)
ROTATE_MS: Final = long.optional(
    "rotate.interval.ms", "How long records wait at most for a file.", at_least(0)
)
ROTATE_SCHEDULE_MS: Final = long.optional(
    "rotate.schedule.interval.ms", "The same as rotate.interval.ms here.", at_least(0)
)
COMPRESSION: Final = text_or_none("compression", None, "The codec of files: snappy, zstd, gzip, none, …")
PARQUET_CODEC: Final = text_or_none("parquet.codec", None, "The codec of Parquet files.")
S3_COMPRESSION: Final = text_or_none("s3.compression.type", None, "The codec of JSON files: none or gzip.")
NULL_VALUES: Final = choice(NullValues)(
    "behavior.on.null.values", NullValues.IGNORE, "What becomes of records without a value."
)
MANIFESTS: Final = integer(
    "ottla.manifests.kept",
    1_000,
    "The number of manifests that are kept: that of the newest batches.",
    at_least(1),
)

TABLE: Final = Table(
    "the file sink",
    {**COMMON, **by_name(globals().values())},
    prefixes=(HADOOP_PREFIX, "s3.", "hdfs.", "hadoop.", "aws.", "storage."),
)
