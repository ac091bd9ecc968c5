"""Settings of quotas."""

from __future__ import annotations

from ottla.config.settings import (
    at_least,
    class_name,
    integer,
)

QUOTA_WINDOW_NUM = integer(
    "quota.window.num", 11, "Samples that client quotas are computed from.", at_least(1)
)
QUOTA_WINDOW_SIZE_SECONDS = integer(
    "quota.window.size.seconds", 1, "Seconds that one sample of client quotas covers.", at_least(1)
)
CONTROLLER_QUOTA_WINDOW_NUM = integer(
    "controller.quota.window.num",
    11,
    "Samples that the quota of metadata changes is computed from.",
    at_least(1),
)
CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS = integer(
    "controller.quota.window.size.seconds",
    1,
    "Seconds that one sample of the quota of metadata changes covers.",
    at_least(1),
)
CLIENT_QUOTA_CALLBACK_CLASS = class_name.optional(
    "client.quota.callback.class", "A class that decides the quotas of clients."
)
