"""Debezium's MariaDB connector: the binary log's row events as records."""
