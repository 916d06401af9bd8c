# ruff: noqa: RUF009 - entry() makes a dataclass field, as dataclasses.field() does
"""``spec.source.kafka`` of a ``KafkaProcessor``: the cluster that topics are landed from, and how to get in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from frazil.admin.manifests.catalogspec import Credentials
from frazil.admin.manifests.fields import Rule, Secret, entry
from frazil.admin.manifests.secrets import SecretReader
from frazil.kit.errors import Refused

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LOGIN_KEYS: Final = ("username", "password")
"""The keys of a secret that are read."""
_ADDRESS: Final = r"(\[[0-9A-Fa-f:.]+\]|[^\s,:\[\]]+):[0-9]{1,5}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTls:
    """TLS to the brokers; host names are checked. ``{}``: with the authorities that the system trusts."""

    ca_file: str = entry(Rule(about="file with the authorities to trust, PEM; default the system's", example="/etc/kafka/ca.pem"), "")
    cert_file: str = entry(Rule(about="file with a certificate of one's own, PEM, when brokers ask for one"), "")
    key_file: str = entry(Rule(about="file with its key, PEM; default: it is in certFile"), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSasl:
    """Who asks."""

    EXCLUSIVE: ClassVar = (("credentials", "password"), ("credentials", "username"))
    mechanism: str = entry(Rule(about="SASL mechanism", choices=MECHANISMS), "SCRAM-SHA-512")
    username: str | None = entry(Rule(about="user", example="${KAFKA_USER}"), None)
    password: Secret | None = entry(Rule(about="its password, best as ${VARIABLE}", characters_max=8192, example="${KAFKA_PASSWORD}"), None)
    credentials: Credentials | None = entry(Rule(about="user and password that are kept elsewhere, as keys username and password"), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSource:
    """A Kafka cluster: its log is read without a consumer group, and what is landed is known by the tables alone."""

    bootstrap: str = entry(
        Rule(
            about="brokers to begin with",
            pattern=rf"{_ADDRESS}(,\s*{_ADDRESS})*",
            wanted="HOST:PORT, several with commas between them",
            example="kafka-1:9092,kafka-2:9092",
        )
    )
    tls: KafkaTls | None = entry(Rule(about="TLS to the brokers; none: plain text"), None)
    sasl: KafkaSasl | None = entry(Rule(about="who asks; none: nobody in particular"), None)
    client_id: str = entry(Rule(about="client id, by which brokers' logs and quotas know landing"), "frazil-land")


def kafka_login(sasl: KafkaSasl, read_secret: SecretReader) -> tuple[str, str]:
    """User and password. Raises Refused when one is missing."""
    if sasl.credentials is not None:
        found = read_secret(sasl.credentials.secret_ref)
        username, password = found.get("username", ""), found.get("password", "")
        where = f"secret {sasl.credentials.secret_ref}"
    else:
        username, password = sasl.username or "", sasl.password.value if sasl.password is not None else ""
        where = "source.kafka.sasl"
    if not username or not password:
        raise Refused(f"{where} has no {'username' if not username else 'password'}")
    return username, password
