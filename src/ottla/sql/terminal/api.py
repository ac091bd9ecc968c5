"""A server's REST API (ksqlDB's): blocking calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from ottla.client.errors import ClusterError
from ottla.client.rest_access import RestAccess
from ottla.sql.terminal.http import Http, Request, SqlUnreachable
from ottla.sql.terminal.row_stream import RowStream, TextStream

ROWS: Final = "application/vnd.ksqlapi.delimited.v1"
ENTITIES: Final = "application/vnd.ksql.v1+json"

Texts = Mapping[str, str]
Entity = dict[str, Any]


class SqlApi:
    """Asks servers. All methods raise ClusterError: SqlRefusal for a refusal, else SqlUnreachable."""

    def __init__(self, access: RestAccess) -> None:
        self.access = access
        self._http = Http(access)

    @property
    def answer_seconds(self) -> float:
        """How long answers are waited for, other than rows."""
        return self._http.answer_seconds

    @answer_seconds.setter
    def answer_seconds(self, seconds: float) -> None:
        self._http.answer_seconds = seconds

    def info(self) -> Entity:
        """The server's version, Kafka cluster, service and state."""
        answer = self._http.whole(Request("GET", "/info"))
        info = answer.get("KsqlServerInfo") if isinstance(answer, dict) else None
        if not isinstance(info, dict):
            raise SqlUnreachable(f"{self.access.shown} is no server of SQL: /info tells nothing")
        return info

    def check_property(self, name: str) -> None:
        """Raises SqlRefusal if statements can't be given this property."""
        self._http.whole(Request("GET", f"/is_valid_property/{quote(name, safe='')}"))

    def statements(
        self,
        text: str,
        properties: Texts | None = None,
        variables: Texts | None = None,
        after: int | None = None,
    ) -> list[Entity]:
        """Carry out statements other than queries; what each tells.

        after: the number of the command that must be carried out first.
        """
        body: dict[str, Any] = {"ksql": text, "streamsProperties": dict(properties or {})}
        if variables:
            body["sessionVariables"] = dict(variables)
        if after is not None:
            body["commandSequenceNumber"] = after
        answer = self._http.whole(Request("POST", "/ksql", body, ENTITIES))
        if not isinstance(answer, list):
            raise SqlUnreachable("the answer is not one of a server of SQL: /ksql gives no list")
        return [each for each in answer if isinstance(each, dict)]

    def query(self, text: str, properties: Texts | None = None, variables: Texts | None = None) -> RowStream:
        """Begin a push or pull query."""
        body: dict[str, Any] = {"sql": text, "properties": dict(properties or {})}
        if variables:
            body["sessionVariables"] = dict(variables)
        return RowStream(self._http.begun(Request("POST", "/query-stream", body, ROWS)))

    def print_topic(
        self, text: str, properties: Texts | None = None, variables: Texts | None = None
    ) -> TextStream:
        """Begin PRINT."""
        body: dict[str, Any] = {"ksql": text, "streamsProperties": dict(properties or {})}
        if variables:
            body["sessionVariables"] = dict(variables)
        return TextStream(self._http.begun(Request("POST", "/query", body, ENTITIES)))

    def close_query(self, query_id: str) -> bool:
        """End a push query; whether the server knew it."""
        try:
            self._http.whole(Request("POST", "/close-query", {"queryId": query_id}, ROWS))
        except ClusterError:
            return False
        return True
