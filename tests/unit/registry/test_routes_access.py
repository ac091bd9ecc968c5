"""Who may do what at the registry's paths: by subject and prefix, through aliases, contexts and ids."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from ottla.registry.app import key_operations_of, operations_of, registry_application
from ottla.registry.routes.access import Extent
from ottla.web.access_rules import AccessRules, Action, parse_rules
from ottla.web.callers import Caller, with_caller
from support.registry.registry_core import InMemoryRegistry, avro_record
from support.registry.registry_http import RegistryHttp

DENIED = (403, 40301)
READER = "User:reader read orders-*"


class Callers:
    """The registry as different callers see it."""

    def __init__(self, registry: InMemoryRegistry) -> None:
        self.app = registry_application(registry)

    def by(self, *rules: str) -> RegistryHttp:
        """As a caller to whom these rules apply: of `User:reader`, a role `dev`, or everybody."""
        made = AccessRules(parse_rules(rules, "test"))
        caller = Caller("User:reader", frozenset(("dev",)))
        grants = made.grants(caller.principal, caller.roles)
        app: ASGIApp = self.app

        async def called(scope: Scope, receive: Receive, send: Send) -> None:
            await app(with_caller(scope, caller, grants), receive, send)

        return RegistryHttp(called)


@pytest.fixture
def registry() -> InMemoryRegistry:
    made = InMemoryRegistry()
    made.register("orders-value", avro_record("a"))
    made.register("secret-value", avro_record("s"))
    made.register(":.ctx:inner", avro_record("c"))
    return made


@pytest.fixture
def callers(registry: InMemoryRegistry) -> Callers:
    return Callers(registry)


BODY = {"schema": avro_record("a", "b?")}
CONFIG = {"compatibility": "FULL"}
MODE = {"mode": "READONLY"}


@pytest.mark.parametrize(
    ("method", "path", "body", "action"),
    [
        ("GET", "/subjects/{}/versions", None, "read"),
        ("GET", "/subjects/{}/versions/1", None, "read"),
        ("GET", "/subjects/{}/versions/latest/schema", None, "read"),
        ("GET", "/subjects/{}/versions/1/referencedby", None, "read"),
        ("GET", "/subjects/{}/metadata?key=a&value=b", None, "read"),
        ("POST", "/subjects/{}", BODY, "read"),
        ("POST", "/compatibility/subjects/{}/versions", BODY, "read"),
        ("POST", "/compatibility/subjects/{}/versions/1", BODY, "read"),
        ("GET", "/config/{}?defaultToGlobal=true", None, "read"),
        ("GET", "/mode/{}?defaultToGlobal=true", None, "read"),
        ("GET", "/associations/subjects/{}", None, "read"),
        ("POST", "/subjects/{}/versions", BODY, "write"),
        ("POST", "/subjects/{}/versions/1/tags", {}, "write"),
        ("PUT", "/config/{}", CONFIG, "admin"),
        ("DELETE", "/config/{}", None, "admin"),
        ("PUT", "/mode/{}", MODE, "admin"),
        ("DELETE", "/mode/{}", None, "admin"),
        ("DELETE", "/subjects/{}/versions/1", None, "admin"),
        ("DELETE", "/subjects/{}", None, "admin"),
        ("DELETE", "/subjects/{}?permanent=true", None, "admin"),
    ],
)
def test_an_operation_on_a_subject_takes_its_action_there(
    method: str, path: str, body: Any, action: str, callers: Callers
) -> None:
    target = path.format("orders-value")
    actions = ("read", "write", "admin")
    for granted in actions:
        enough = actions.index(granted) >= actions.index(action)
        for names in ("orders-value", "orders-*", "*"):
            answer = callers.by(f"User:reader {granted} {names}").ask(method, target, body)
            assert (answer.status_code == 403) != enough, (granted, names, answer.text)
        for names in ("orders", "orders-value-*", "other-*"):
            assert callers.by(f"User:reader {granted} {names}").refusal(method, target, body) == DENIED
    for rule in ("User:other admin *", "Role:ops admin *"):
        assert callers.by(rule).refusal(method, target, body) == DENIED
    assert callers.by("Role:dev admin *").ask(method, target, body).status_code != 403


def test_a_refusal_comes_before_the_body_is_looked_at(callers: Callers) -> None:
    http = callers.by(READER)
    answer = http.ask("POST", "/subjects/orders-value/versions", content=b"no json")
    assert answer.status_code == 403
    assert "User:reader is denied WRITE on subject orders-value" in answer.text


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/config", CONFIG),
        ("DELETE", "/config", None),
        ("PUT", "/mode", MODE),
        ("DELETE", "/mode", None),
        ("POST", "/associations", {}),
        ("DELETE", "/associations/resources/x", None),
        ("POST", "/associations:batchMutate", {}),
    ],
)
def test_what_holds_for_all_takes_admin_of_everything(
    method: str, path: str, body: Any, callers: Callers
) -> None:
    for rule in ("* admin orders-*", "* write *", "* admin orders-value"):
        assert callers.by(rule).refusal(method, path, body) == DENIED
    assert callers.by("* admin *").ask(method, path, body).status_code != 403


def test_listings_have_what_the_caller_may_read(callers: Callers) -> None:
    http = callers.by(READER)
    assert http.get("/subjects") == ["orders-value"]
    assert [each["subject"] for each in http.get("/schemas")] == ["orders-value"]
    assert http.get("/contexts") == ["."]
    assert callers.by("* read :.ctx:*").get("/contexts") == [".", ".ctx"]
    assert callers.by("* read :.ctx:*").get("/subjects") == [":.ctx:inner"]
    assert callers.by("* read *").get("/subjects") == [":.ctx:inner", "orders-value", "secret-value"]
    for path in ("/subjects", "/schemas", "/contexts", "/config", "/mode", "/v1/metadata/state"):
        assert callers.by("User:other read *").refusal("GET", path) == DENIED
    for path in ("/", "/schemas/types", "/v1/metadata/id", "/v1/metadata/version"):
        assert callers.by("User:other read *").ask("GET", path).status_code == 200


def test_a_schema_is_there_for_those_who_read_a_subject_that_has_it(
    callers: Callers, registry: InMemoryRegistry
) -> None:
    mine = registry.register("orders-copy", avro_record("s"))
    own, secret = registry.register("orders-value", avro_record("a")), mine
    assert registry.register("secret-value", avro_record("s")) == secret
    alone = registry.register("secret-alone", avro_record("alone"))
    http = callers.by("* read orders-*")
    for schema_id in (own, secret):
        assert http.ask("GET", f"/schemas/ids/{schema_id}").status_code == 200
        assert http.ask("GET", f"/schemas/ids/{schema_id}/schema").status_code == 200
    for tail in ("", "/schema", "/subjects", "/versions", "?fetchMaxId=true", "?subject=secret-alone"):
        assert http.refusal("GET", f"/schemas/ids/{alone}{tail}") == (404, 40403)
    assert http.get(f"/schemas/ids/{secret}/subjects") == ["orders-copy"]
    assert [each["subject"] for each in http.get(f"/schemas/ids/{secret}/versions")] == ["orders-copy"]
    guid = callers.by("* read *").get(f"/schemas/ids/{secret}")["guid"]
    hidden = callers.by("* read *").get(f"/schemas/ids/{alone}")["guid"]
    assert http.get(f"/schemas/guids/{guid}")["guid"] == guid
    assert http.get(f"/schemas/guids/{guid}/ids") == [{"context": ".", "id": secret}]
    for tail in ("", "/ids"):
        assert http.refusal("GET", f"/schemas/guids/{hidden}{tail}") == (404, 40403)


def test_an_alias_opens_nothing(callers: Callers) -> None:
    callers.by("* admin *").put("/config/orders-alias", {"alias": "secret-value"})
    http = callers.by("User:reader admin orders-*")
    for method, path, body in (
        ("GET", "/subjects/orders-alias/versions/latest", None),
        ("GET", "/subjects/orders-alias/versions", None),
        ("POST", "/subjects/orders-alias/versions", BODY),
        ("DELETE", "/subjects/orders-alias", None),
    ):
        assert http.refusal(method, path, body) == DENIED
    assert callers.by("* read secret-*").get("/subjects/orders-alias/versions") == [1]
    # Who administers the alias may point it elsewhere, which opens nothing either.
    http.put("/config/orders-alias", {"alias": "orders-value"})
    assert http.get("/subjects/orders-alias/versions") == [1]


def test_a_subject_of_another_context_is_not_had_by_its_short_name(callers: Callers) -> None:
    http = callers.by("User:reader admin inner")
    for path in ("/subjects/inner/versions", "/subjects/inner/versions/1"):
        assert http.refusal("GET", path) == (404, 40401)
    assert http.refusal("DELETE", "/subjects/inner") == DENIED
    assert http.refusal("GET", "/subjects/:.ctx:inner/versions") == DENIED
    assert http.refusal("GET", "/contexts/.ctx/subjects/inner/versions") == DENIED
    within = callers.by("User:reader admin :.ctx:*")
    assert within.get("/contexts/.ctx/subjects/inner/versions") == [1]
    assert within.get("/subjects/inner/versions/1")["subject"] == ":.ctx:inner"
    # ... but a new version would go to the default context
    assert within.refusal("POST", "/subjects/inner/versions", BODY) == DENIED


def test_a_context_s_own_settings_take_the_whole_context(callers: Callers) -> None:
    for rule in ("* admin :.ctx:inner", "* admin :.ctx:", "* admin orders-*"):
        http = callers.by(rule)
        assert http.refusal("PUT", "/config/:.ctx:", CONFIG) == DENIED
        assert http.refusal("DELETE", "/mode/:.ctx:?recursive=true") == DENIED
        assert http.refusal("DELETE", "/contexts/.ctx") == DENIED
    http = callers.by("* admin :.ctx:*")
    assert http.put("/config/:.ctx:", CONFIG) == CONFIG
    assert http.ask("DELETE", "/contexts/.ctx").status_code != 403
    assert http.refusal("PUT", "/config/:.__GLOBAL:", CONFIG) == DENIED


def test_a_reference_shows_no_schema_that_the_caller_may_not_read(callers: Callers) -> None:
    schema = json.dumps({"type": "record", "name": "O", "fields": [{"name": "r", "type": "R"}]})
    body = {"schema": schema, "references": [{"name": "R", "subject": "secret-value", "version": 1}]}
    http = callers.by("User:reader admin orders-*")
    for path in (
        "/subjects/orders-o/versions",
        "/subjects/orders-o",
        "/compatibility/subjects/orders-o/versions",
    ):
        assert http.refusal("POST", path, body) == DENIED
    allowed = callers.by("User:reader admin orders-*", "User:reader read secret-value")
    assert allowed.ask("POST", "/subjects/orders-o/versions", body).status_code == 200


def test_associations_of_other_subjects_are_left_out(callers: Callers) -> None:
    body: Mapping[str, Any] = {
        "resourceName": "t",
        "resourceNamespace": "ns",
        "resourceId": "id",
        "resourceType": "topic",
        "associations": [
            {"subject": "secret-value", "associationType": "value"},
            {"subject": "orders-value", "associationType": "key"},
        ],
    }
    callers.by("* admin *").post("/associations", body)
    http = callers.by(READER)
    assert [each["subject"] for each in http.get("/associations/resources/id")] == ["orders-value"]
    assert [each["subject"] for each in http.get("/associations/resources/ns/t")] == ["orders-value"]
    told = http.ask("POST", "/associations:batchGet?includeSchemas=true", [{"resourceId": "id"}])
    assert "secret" not in told.text


def test_keys_are_had_as_their_subjects_are(callers: Callers) -> None:
    keks, material = "/dek-registry/v1/keks", {"encryptedKeyMaterial": "YQ=="}
    kek = {"name": "all", "kmsType": "local-kms", "kmsKeyId": "id"}
    admin = callers.by("* admin *")
    admin.post(keks, kek)
    for subject in ("orders-value", "secret-value"):
        admin.post(f"{keks}/all/deks/{subject}", material)
    reader, writer = callers.by(READER), callers.by("User:reader write orders-*")
    for http in (reader, writer):
        assert http.get(f"{keks}/all")["name"] == "all"
        assert http.get(keks) == ["all"]
        assert http.get(f"{keks}?subjectPrefix=secret") == []
        assert http.get(f"{keks}/all/deks") == ["orders-value"]
        assert http.get(f"{keks}/all/deks/orders-value")["version"] == 1
        for path in ("", "/versions", "/versions/1"):
            assert http.refusal("GET", f"{keks}/all/deks/secret-value{path}") == DENIED
        for path in ("/deks/secret-value", "/deks/secret-value/versions/1", "/deks/orders-value", ""):
            assert http.refusal("DELETE", f"{keks}/all{path}") == DENIED
        assert http.refusal("POST", f"{keks}/all/deks/secret-value", material) == DENIED
        assert http.refusal("POST", f"{keks}/all/deks", {**material, "subject": "secret-value"}) == DENIED
        assert http.refusal("POST", f"{keks}/all/deks/orders-value?rewrap=true", material) == DENIED
        assert http.refusal("PUT", f"{keks}/all", {"doc": "a"}) == DENIED
        assert http.refusal("POST", keks, {**kek, "name": "other"}) == DENIED
        assert http.refusal("POST", f"{keks}/all/test") == DENIED
    assert reader.refusal("POST", f"{keks}/all/deks/orders-value", {**material, "version": 2}) == DENIED
    assert writer.post(f"{keks}/all/deks/orders-value", {**material, "version": 2})["version"] == 2
    assert writer.post(keks, {**kek, "name": "orders-kek"})["name"] == "orders-kek"
    nobody = callers.by("User:other read *")
    assert nobody.refusal("GET", keks) == nobody.refusal("GET", f"{keks}/all") == DENIED


def test_only_an_administrator_lends_the_registry_s_secret(callers: Callers) -> None:
    keks, owner = "/dek-registry/v1/keks", callers.by("User:reader admin orders-*")
    kek = {"name": "orders-kek", "kmsType": "local-kms", "kmsKeyId": "id"}
    assert owner.refusal("POST", keks, {**kek, "shared": True}) == DENIED
    owner.post(keks, kek)
    assert owner.refusal("PUT", f"{keks}/orders-kek", {"shared": True}) == DENIED
    callers.by("* admin *").put(f"{keks}/orders-kek", {"shared": True})
    # a wrapped key of another subject would be unwrapped for whoever gives it as their own
    material = {"encryptedKeyMaterial": "YQ=="}
    assert owner.refusal("POST", f"{keks}/orders-kek/deks/orders-value", material) == DENIED


def test_an_alias_opens_no_keys(callers: Callers) -> None:
    keks, admin = "/dek-registry/v1/keks", callers.by("* admin *")
    admin.post(keks, {"name": "all", "kmsType": "local-kms", "kmsKeyId": "id"})
    admin.post(f"{keks}/all/deks/secret-value", {"encryptedKeyMaterial": "YQ=="})
    admin.put("/config/orders-alias", {"aliasForDeks": "secret-value"})
    assert admin.get(f"{keks}/all/deks/orders-alias")["subject"] == "secret-value"
    http = callers.by("User:reader admin orders-*")
    assert http.refusal("GET", f"{keks}/all/deks/orders-alias") == DENIED
    assert http.refusal("DELETE", f"{keks}/all/deks/orders-alias") == DENIED


def test_every_operation_that_changes_something_needs_more_than_reading(registry: InMemoryRegistry) -> None:
    for operation in (*operations_of(registry), *key_operations_of(registry)):
        changes = operation.writes or operation.method in ("PUT", "DELETE")
        if changes:
            assert operation.needs.action > Action.READ, operation
        if "{subject}" in operation.path:
            assert operation.needs.extent in (Extent.SUBJECT, Extent.SCOPE, Extent.DEK), operation


def test_without_rules_all_is_allowed(registry: InMemoryRegistry) -> None:
    http = RegistryHttp(registry_application(registry))
    assert len(http.get("/subjects")) == 3
    ask: Callable[..., Any] = http.ask
    assert ask("PUT", "/config", CONFIG).status_code == 200
