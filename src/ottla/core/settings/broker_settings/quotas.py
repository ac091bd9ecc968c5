"""Settings of quotas."""

from __future__ import annotations

from ottla.config.setting import LOW, class_name, integer
from ottla.config.validators import at_least

QUOTA_WINDOW_NUM = integer(
    "quota.window.num", 11, "Samples that client quotas are computed from.", at_least(1), importance=LOW
)
QUOTA_WINDOW_SIZE_SECONDS = integer(
    "quota.window.size.seconds",
    1,
    "Seconds that one sample of client quotas covers.",
    at_least(1),
    importance=LOW,
)
CONTROLLER_QUOTA_WINDOW_NUM = integer(
    "controller.quota.window.num",
    11,
    "Samples that the quota of metadata changes is computed from.",
    at_least(1),
    importance=LOW,
)
CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS = integer(
    "controller.quota.window.size.seconds",
    1,
    "Seconds that one sample of the quota of metadata changes covers.",
    at_least(1),
    importance=LOW,
)
CLIENT_QUOTA_CALLBACK_CLASS = class_name.optional(
    "client.quota.callback.class", "A class that decides the quotas of clients.", importance=LOW
)
