"""Traces on request: spans of services and pipelines, sent to a collector by OpenTelemetry's own library.

    trace_context.py   the context of a trace, in the headers of requests and of records
    tracer.py          spans, and the way of these to the collector, by the extra `telemetry`

Nothing of OpenTelemetry is imported unless a collector is configured.
"""
