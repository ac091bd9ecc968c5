"""PostgreSQL's wire protocol: streams and tables for psql, drivers and BI tools."""
