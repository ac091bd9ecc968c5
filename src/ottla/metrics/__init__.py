"""Metrics and health of every process: one table of metrics, one way to expose them.

    metric.py        the description of a metric
    tables/          the metrics of each system, from which docs and dashboards are made
    histogram.py     distributions of times and sizes in integer buckets
    exposition.py    Prometheus' text formats, written in slices
    health.py        the checks behind /healthz and /readyz
    settings.py      the settings `ottla.metrics.*`
    access.py        who may read an endpoint
    endpoint.py      the HTTP endpoint, on a loop
    thread.py        the endpoint in a thread of its own
    process.py       the metrics of the process itself

How a part is measured: a counter is a plain integer on an object that the part touches anyway. A *source*, a
function that gives families of samples, reads those integers when somebody scrapes.
"""
