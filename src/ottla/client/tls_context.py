"""librdkafka's TLS properties as an SSLContext, which aiokafka's clients take."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ottla.client.errors import ClientOptionError
from ottla.client.security import checks_host_names, verifies_certificates


def tls_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """The context for the properties `ssl.*`. Raises ClientOptionError for files that can't be read."""
    try:
        context = _trusting(properties)
        _show_certificate(context, properties)
        if "ssl.cipher.suites" in properties:
            context.set_ciphers(properties["ssl.cipher.suites"])
    except (OSError, ValueError) as problem:  # an SSLError is an OSError
        raise ClientOptionError(f"the settings ssl.*: {problem}") from problem
    if not checks_host_names(properties):
        context.check_hostname = False
    if not verifies_certificates(properties):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _trusting(properties: Mapping[str, str]) -> ssl.SSLContext:
    """A context that trusts the authorities of a file, a directory or a text, or else those of the system."""
    text, location = properties.get("ssl.ca.pem"), properties.get("ssl.ca.location")
    if text is not None:
        return ssl.create_default_context(cadata=text)
    if location is not None and Path(location).is_dir():
        return ssl.create_default_context(capath=location)
    if location is not None:
        Path(location).open("rb").close()  # an error of ssl's would not name the file
    return ssl.create_default_context(cafile=location)


def _show_certificate(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    certificate, key = _pem(properties, "ssl.certificate"), _pem(properties, "ssl.key")
    if certificate is None:
        return
    # Python reads certificates and keys from files alone.
    descriptor, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as both:
            both.write(f"{certificate}\n{key or ''}\n")
        # Without a password OpenSSL would ask for one at the terminal.
        context.load_cert_chain(path, password=properties.get("ssl.key.password", ""))
    finally:
        Path(path).unlink()


def _pem(properties: Mapping[str, str], name: str) -> str | None:
    if f"{name}.pem" in properties:
        return properties[f"{name}.pem"]
    location = properties.get(f"{name}.location")
    return None if location is None else Path(location).read_text(encoding="ascii")
