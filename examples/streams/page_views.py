"""Page views by region: a stream of views joined with the table of users, as it is when a view comes.

The views of a deleted user (a null value, a tombstone) are left out from then on.

The topics page-views, users and region-views must exist; any Kafka client can create them.

    ottla streams run examples/streams/page_views.py
"""

from dataclasses import dataclass

from ottla.streams import Streams


@dataclass(frozen=True)
class PageView:
    """A user, the record's key, has looked at a page."""

    page: str
    seconds: int


@dataclass(frozen=True)
class User:
    """Who a user is; the record's key is the user's id."""

    name: str
    region: str


app = Streams("page-views")

users = app.table("users", key=str, value=User)
views = app.stream("page-views", key=str, value=PageView)

regions = views.join_table(users, lambda view, user: user.region)

regions.group_by(lambda view: view.value).count(name="regions").to("region-views", key=str, value=int)
