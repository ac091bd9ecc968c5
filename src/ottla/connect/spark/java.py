"""Exceptions of Java as Py4J raises them."""

from __future__ import annotations

from typing import Any


def class_of(problem: Exception) -> str:
    """The simple name of the Java exception behind one of Py4J's or PySpark's; empty if there is none."""
    java: Any = getattr(problem, "java_exception", None) or getattr(problem, "_origin", None)
    try:
        return "" if java is None else str(java.getClass().getSimpleName())
    except Exception:
        return ""
