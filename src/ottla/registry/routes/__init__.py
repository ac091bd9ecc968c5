"""The REST API, one module a family of paths; `operation.py` says what they have in common.

Endpoints are thin: they read a request's parameters and body, ask or tell the registry's core, and give its
answer a shape. All decisions, and nearly all refusals, are the core's.
"""
