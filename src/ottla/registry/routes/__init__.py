"""The REST API, one module a family of paths; `operation.py` has their common part.

Endpoints are thin: they read a request's parameters and body, call the registry's core, and give its answer a
shape. All decisions, and nearly all refusals, are the core's.
"""
