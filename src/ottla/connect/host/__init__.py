"""The processes that run connectors and tasks, apart from the worker with its HTTP and its group."""
