"""Records as documents of search indexes: Elasticsearch 6.8 to 8, and OpenSearch."""
