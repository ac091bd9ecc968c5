"""Spark's settings for queries with state, as far as a measurement has shown that they are worth it.

A windowed count of 2 million records over a million keys, Kafka to nowhere, 2 shuffle partitions, in seconds
of the JVM's processor time, which a busy machine disturbs least (2 cores):

| query | seconds | records/s on 2 free cores |
|---|---|---|
| reading alone | 4.7 | 855,000 |
| Spark's defaults, RocksDB with changelog | 41.4 | 97,000 |
| trackTotalNumberOfRows=false | 27.6 | 145,000 |
"""

from __future__ import annotations

STATE_SETTINGS = {
    # Counting rows costs a read of RocksDB for each write. The price: progress tells 0 rows of state; how
    # large it is, is told in bytes (customMetrics.rocksdbSstFileSize, memoryUsedBytes).
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
}
"""For `SparkSettings.properties` of an application; settings of the user come after and win."""
