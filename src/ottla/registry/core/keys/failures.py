"""Refusals about keys, with the codes and messages of Confluent's DEK registry."""

from __future__ import annotations

from ottla.web.errors import ApiError


def key_not_found(name: str) -> ApiError:
    return ApiError(404, 40470, f"Key '{name}' not found")


def key_not_deleted(name: str) -> ApiError:
    message = f"Key '{name}' was not deleted first before being permanently deleted"
    return ApiError(404, 40471, message)


def key_deleted(name: str) -> ApiError:
    return ApiError(404, 40472, f"Key '{name}' must be undeleted first")


def key_exists(name: str) -> ApiError:
    return ApiError(409, 40971, f"Key '{name}' already exists; use a different value")


def too_many_keys(most: int) -> ApiError:
    return ApiError(409, 40972, f"A maximum of {most} keys already exist")


def invalid_key(field: str, reason: str = "") -> ApiError:
    message = f"Invalid or missing value for field '{field}' of key"
    return ApiError(422, 42271, f"{message}: {reason}" if reason else message)


def key_referenced(name: str) -> ApiError:
    return ApiError(422, 42272, f"One or more references exist to the key '{name}'")


def not_wrapped(subject: str, reason: str) -> ApiError:
    return ApiError(500, 50070, f"Could not generate encrypted dek for {subject}: {reason}")


def not_unwrapped(subject: str, reason: str) -> ApiError:
    return ApiError(500, 50070, f"Could not generate raw dek for {subject}: {reason}")
