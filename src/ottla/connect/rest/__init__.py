"""Connect's REST API: thin endpoints over the worker's herder."""
