"""Settings of TLS, SASL, delegation tokens and authorization."""

from __future__ import annotations

from ottla.config.setting import (
    HIGH,
    LOW,
    PER_BROKER,
    boolean,
    class_name,
    double,
    integer,
    long,
    password,
    short,
    string,
    string_list,
)
from ottla.config.validators import ListOf, OneOf, at_least, between

AUTHORIZER_CLASS_NAME = string(
    "authorizer.class.name",
    "",
    "The class that authorizes requests; empty allows all, Kafka's StandardAuthorizer goes by ACLs.",
    importance=LOW,
)
PRINCIPAL_BUILDER_CLASS = class_name(
    "principal.builder.class",
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    "The class that names the principal of a connection.",
    update=PER_BROKER,
)
CONNECTIONS_MAX_REAUTH_MS = long(
    "connections.max.reauth.ms",
    0,
    "How long an authenticated connection lasts before it must authenticate again; 0 is for ever.",
)
SECURITY_PROVIDERS = string.optional(
    "security.providers", "Classes that provide security algorithms.", importance=LOW
)
DELEGATION_TOKEN_SECRET_KEY = password.optional(
    "delegation.token.secret.key",
    "The secret that delegation tokens are made with; the same on every broker.",
)
DELEGATION_TOKEN_MAX_LIFETIME_MS = long(
    "delegation.token.max.lifetime.ms", 604_800_000, "The longest life of a delegation token.", at_least(1)
)
DELEGATION_TOKEN_EXPIRY_TIME_MS = long(
    "delegation.token.expiry.time.ms",
    86_400_000,
    "How long a delegation token lasts without being renewed.",
    at_least(1),
)
DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS = long(
    "delegation.token.expiry.check.interval.ms",
    3_600_000,
    "How often expired delegation tokens are removed.",
    at_least(1),
    importance=LOW,
)
SSL_PROTOCOL = string(
    "ssl.protocol", "TLSv1.3", "The TLS version that contexts are made with.", update=PER_BROKER
)
SSL_PROVIDER = string.optional("ssl.provider", "The provider of TLS.", update=PER_BROKER)
SSL_ENABLED_PROTOCOLS = string_list(
    "ssl.enabled.protocols",
    ("TLSv1.2", "TLSv1.3"),
    "TLS versions that connections may use.",
    ListOf(),
    update=PER_BROKER,
)
SSL_CIPHER_SUITES = string_list(
    "ssl.cipher.suites",
    (),
    "Cipher suites that connections may use; empty is all.",
    ListOf(),
    update=PER_BROKER,
)
SSL_CLIENT_AUTH = string(
    "ssl.client.auth",
    "none",
    "Whether clients must show a certificate.",
    OneOf(("required", "requested", "none")),
    update=PER_BROKER,
)
SSL_KEYSTORE_TYPE = string("ssl.keystore.type", "JKS", "The format of the key store.", update=PER_BROKER)
SSL_KEYSTORE_LOCATION = string.optional(
    "ssl.keystore.location", "The file of the key store.", update=PER_BROKER
)
SSL_KEYSTORE_PASSWORD = password.optional(
    "ssl.keystore.password", "The password of the key store.", update=PER_BROKER
)
SSL_KEYSTORE_KEY = password.optional(
    "ssl.keystore.key", "The private key as PEM, instead of a key store.", update=PER_BROKER
)
SSL_KEYSTORE_CERTIFICATE_CHAIN = password.optional(
    "ssl.keystore.certificate.chain", "The certificates as PEM, instead of a key store.", update=PER_BROKER
)
SSL_KEY_PASSWORD = password.optional(
    "ssl.key.password", "The password of the private key.", update=PER_BROKER
)
SSL_TRUSTSTORE_TYPE = string(
    "ssl.truststore.type", "JKS", "The format of the trust store.", update=PER_BROKER
)
SSL_TRUSTSTORE_LOCATION = string.optional(
    "ssl.truststore.location", "The file of the trust store.", update=PER_BROKER
)
SSL_TRUSTSTORE_PASSWORD = password.optional(
    "ssl.truststore.password", "The password of the trust store.", update=PER_BROKER
)
SSL_TRUSTSTORE_CERTIFICATES = password.optional(
    "ssl.truststore.certificates",
    "The trusted certificates as PEM, instead of a trust store.",
    update=PER_BROKER,
)
SSL_KEYMANAGER_ALGORITHM = string(
    "ssl.keymanager.algorithm", "SunX509", "The algorithm of the key manager.", update=PER_BROKER
)
SSL_TRUSTMANAGER_ALGORITHM = string(
    "ssl.trustmanager.algorithm", "PKIX", "The algorithm of the trust manager.", update=PER_BROKER
)
SSL_ENDPOINT_IDENTIFICATION_ALGORITHM = string(
    "ssl.endpoint.identification.algorithm",
    "https",
    "How a server's name is checked against its certificate; empty is not at all.",
    importance=LOW,
    update=PER_BROKER,
)
SSL_SECURE_RANDOM_IMPLEMENTATION = string.optional(
    "ssl.secure.random.implementation",
    "The random number generator of TLS.",
    importance=LOW,
    update=PER_BROKER,
)
SSL_ENGINE_FACTORY_CLASS = class_name.optional(
    "ssl.engine.factory.class", "The class that makes TLS engines.", importance=LOW, update=PER_BROKER
)
SSL_PRINCIPAL_MAPPING_RULES = string(
    "ssl.principal.mapping.rules",
    "DEFAULT",
    "Rules that turn a certificate's name into a short one.",
    importance=LOW,
)
SSL_ALLOW_DN_CHANGES = boolean(
    "ssl.allow.dn.changes", False, "Whether a new certificate may have another name.", importance=LOW
)
SSL_ALLOW_SAN_CHANGES = boolean(
    "ssl.allow.san.changes",
    False,
    "Whether a new certificate may have other alternative names.",
    importance=LOW,
)
SASL_ENABLED_MECHANISMS = string_list(
    "sasl.enabled.mechanisms",
    ("GSSAPI",),
    "SASL mechanisms that clients may use.",
    ListOf(),
    update=PER_BROKER,
)
SASL_MECHANISM_INTER_BROKER_PROTOCOL = string(
    "sasl.mechanism.inter.broker.protocol", "GSSAPI", "The SASL mechanism among brokers.", update=PER_BROKER
)
SASL_MECHANISM_CONTROLLER_PROTOCOL = string(
    "sasl.mechanism.controller.protocol", "GSSAPI", "The SASL mechanism to controllers.", importance=HIGH
)
SASL_JAAS_CONFIG = password.optional(
    "sasl.jaas.config", "The login of a listener's mechanism, as in a JAAS file.", update=PER_BROKER
)
SASL_LOGIN_CLASS = class_name.optional("sasl.login.class", "The class that logs in.")
SASL_LOGIN_CALLBACK_HANDLER_CLASS = class_name.optional(
    "sasl.login.callback.handler.class", "The class that answers a login's questions."
)
SASL_CLIENT_CALLBACK_HANDLER_CLASS = class_name.optional(
    "sasl.client.callback.handler.class", "The class that answers a SASL client's questions."
)
SASL_SERVER_CALLBACK_HANDLER_CLASS = class_name.optional(
    "sasl.server.callback.handler.class", "The class that answers a SASL server's questions."
)
SASL_SERVER_MAX_RECEIVE_SIZE = integer(
    "sasl.server.max.receive.size", 524_288, "The largest SASL message that is read before authentication."
)
SASL_LOGIN_CONNECT_TIMEOUT_MS = integer.optional(
    "sasl.login.connect.timeout.ms", "How long connecting to a token provider may take.", importance=LOW
)
SASL_LOGIN_READ_TIMEOUT_MS = integer.optional(
    "sasl.login.read.timeout.ms", "How long reading from a token provider may take.", importance=LOW
)
SASL_LOGIN_RETRY_BACKOFF_MS = long(
    "sasl.login.retry.backoff.ms", 100, "Time to wait before asking a token provider again.", importance=LOW
)
SASL_LOGIN_RETRY_BACKOFF_MAX_MS = long(
    "sasl.login.retry.backoff.max.ms",
    10_000,
    "The longest time to wait before asking a token provider again.",
    importance=LOW,
)
SASL_LOGIN_REFRESH_WINDOW_FACTOR = double(
    "sasl.login.refresh.window.factor",
    0.8,
    "The part of a credential's life after which it is refreshed.",
    update=PER_BROKER,
)
SASL_LOGIN_REFRESH_WINDOW_JITTER = double(
    "sasl.login.refresh.window.jitter",
    0.05,
    "The random part added to the time of a refresh.",
    update=PER_BROKER,
)
SASL_LOGIN_REFRESH_MIN_PERIOD_SECONDS = short(
    "sasl.login.refresh.min.period.seconds",
    60,
    "The least time between two refreshes of a credential.",
    update=PER_BROKER,
)
SASL_LOGIN_REFRESH_BUFFER_SECONDS = short(
    "sasl.login.refresh.buffer.seconds",
    300,
    "Time before a credential's end that is kept free of refreshes.",
    update=PER_BROKER,
)
SASL_KERBEROS_SERVICE_NAME = string.optional(
    "sasl.kerberos.service.name", "The Kerberos name of the broker's service.", update=PER_BROKER
)
SASL_KERBEROS_KINIT_CMD = string(
    "sasl.kerberos.kinit.cmd", "/usr/bin/kinit", "The path of kinit.", update=PER_BROKER
)
SASL_KERBEROS_TICKET_RENEW_WINDOW_FACTOR = double(
    "sasl.kerberos.ticket.renew.window.factor",
    0.8,
    "The part of a ticket's life after which it is renewed.",
    update=PER_BROKER,
)
SASL_KERBEROS_TICKET_RENEW_JITTER = double(
    "sasl.kerberos.ticket.renew.jitter",
    0.05,
    "The random part added to the time of a renewal.",
    update=PER_BROKER,
)
SASL_KERBEROS_MIN_TIME_BEFORE_RELOGIN = long(
    "sasl.kerberos.min.time.before.relogin",
    60_000,
    "The least time between two Kerberos logins.",
    update=PER_BROKER,
)
SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES = string_list(
    "sasl.kerberos.principal.to.local.rules",
    ("DEFAULT",),
    "Rules that turn a Kerberos principal into a short name.",
    ListOf(),
    update=PER_BROKER,
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_URL = string.optional(
    "sasl.oauthbearer.jwks.endpoint.url", "Where the keys that sign tokens are found."
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS = long(
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    3_600_000,
    "How often the signing keys are fetched again.",
    importance=LOW,
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS = long(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    100,
    "Time to wait before fetching the signing keys again after a failure.",
    importance=LOW,
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS = long(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    10_000,
    "The longest time to wait before fetching the signing keys again.",
    importance=LOW,
)
SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL = string.optional(
    "sasl.oauthbearer.token.endpoint.url", "Where tokens are asked for."
)
SASL_OAUTHBEARER_EXPECTED_AUDIENCE = string_list(
    "sasl.oauthbearer.expected.audience",
    (),
    "Audiences that a token may be meant for.",
    ListOf(),
    importance=HIGH,
)
SASL_OAUTHBEARER_EXPECTED_ISSUER = string.optional(
    "sasl.oauthbearer.expected.issuer", "The issuer that a token must come from.", importance=HIGH
)
SASL_OAUTHBEARER_ALLOW_UNVERIFIED_AUDIENCE = boolean(
    "sasl.oauthbearer.allow.unverified.audience",
    False,
    "Whether a token may be meant for any audience when none is expected.",
)
SASL_OAUTHBEARER_ALLOW_UNVERIFIED_ISSUER = boolean(
    "sasl.oauthbearer.allow.unverified.issuer",
    False,
    "Whether a token may come from any issuer when none is expected.",
)
SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS = integer(
    "sasl.oauthbearer.clock.skew.seconds",
    30,
    "The difference between clocks that is allowed for.",
    importance=LOW,
)
SASL_OAUTHBEARER_SCOPE = string.optional("sasl.oauthbearer.scope", "The scope to ask a token for.")
SASL_OAUTHBEARER_SCOPE_CLAIM_NAME = string(
    "sasl.oauthbearer.scope.claim.name", "scope", "The claim that holds a token's scope.", importance=LOW
)
SASL_OAUTHBEARER_SUB_CLAIM_NAME = string(
    "sasl.oauthbearer.sub.claim.name", "sub", "The claim that holds a token's subject.", importance=LOW
)
SASL_OAUTHBEARER_JWT_RETRIEVER_CLASS = class_name(
    "sasl.oauthbearer.jwt.retriever.class",
    "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
    "The class that fetches tokens.",
)
SASL_OAUTHBEARER_JWT_VALIDATOR_CLASS = class_name(
    "sasl.oauthbearer.jwt.validator.class",
    "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
    "The class that checks tokens.",
)
SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_ID = string.optional(
    "sasl.oauthbearer.client.credentials.client.id", "The client's id at the token provider."
)
SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_SECRET = password.optional(
    "sasl.oauthbearer.client.credentials.client.secret", "The client's secret at the token provider."
)
SASL_OAUTHBEARER_ASSERTION_ALGORITHM = string(
    "sasl.oauthbearer.assertion.algorithm",
    "RS256",
    "The algorithm that signs an assertion.",
    OneOf(("ES256", "RS256"), ignore_case=True),
)
SASL_OAUTHBEARER_ASSERTION_CLAIM_AUD = string.optional(
    "sasl.oauthbearer.assertion.claim.aud", "The audience of an assertion."
)
SASL_OAUTHBEARER_ASSERTION_CLAIM_EXP_SECONDS = integer(
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    300,
    "How long an assertion is valid.",
    between(0, 86_400),
    importance=LOW,
)
SASL_OAUTHBEARER_ASSERTION_CLAIM_ISS = string.optional(
    "sasl.oauthbearer.assertion.claim.iss", "The issuer of an assertion."
)
SASL_OAUTHBEARER_ASSERTION_CLAIM_JTI_INCLUDE = boolean(
    "sasl.oauthbearer.assertion.claim.jti.include", False, "Whether an assertion has an id of its own."
)
SASL_OAUTHBEARER_ASSERTION_CLAIM_NBF_SECONDS = integer(
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    60,
    "How far in the past an assertion's validity begins.",
    between(0, 3600),
    importance=LOW,
)
SASL_OAUTHBEARER_ASSERTION_CLAIM_SUB = string.optional(
    "sasl.oauthbearer.assertion.claim.sub", "The subject of an assertion."
)
SASL_OAUTHBEARER_ASSERTION_FILE = string.optional(
    "sasl.oauthbearer.assertion.file", "A file that holds a finished assertion."
)
SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_FILE = string.optional(
    "sasl.oauthbearer.assertion.private.key.file", "The file of the key that signs assertions."
)
SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_PASSPHRASE = password.optional(
    "sasl.oauthbearer.assertion.private.key.passphrase", "The passphrase of the key that signs assertions."
)
SASL_OAUTHBEARER_ASSERTION_TEMPLATE_FILE = string.optional(
    "sasl.oauthbearer.assertion.template.file", "A file with more headers and claims of an assertion."
)
