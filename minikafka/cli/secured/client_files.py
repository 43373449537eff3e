"""The configurations of clients that a secured cluster offers: one file for each kind of client.

Each file has everything that its client needs, also the certificate of the authority, so that it
can be copied to another folder; only librdkafka's properties name ``ca.pem`` beside them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Final

from minikafka.core.security.jaas import SCRAM_MODULE
from minikafka.core.security.scram_credentials import SCRAM_SHA_512
from minikafka.kernel.lazy_dataclass import dataclass

PROTOCOL: Final = "SASL_SSL"
MECHANISM: Final = SCRAM_SHA_512.kafka_name
COMMAND_CONFIG: Final = "client.properties"


@dataclass(frozen=True, slots=True)
class Access:
    """What a client must know to connect as a user. ``rights`` is a line for people; ``prefix`` is
    that of the names the user may use, empty for all."""

    bootstrap: str
    user: str
    password: str = field(repr=False)
    authority_pem: str
    authority_path: str
    rights: str
    prefix: str


def client_files(access: Access) -> Mapping[str, str]:
    """Return the text of each file by its name."""
    return {name: text(access) for name, text in FILES.items()}


def jaas_entry(user: str, password: str) -> str:
    """Return the JAAS entry of a client. Passwords are made of letters, digits, - and _."""
    return f'{SCRAM_MODULE} required username="{user}" password="{password}";'


def _about(access: Access, mark: str, what: str) -> str:
    lines = (what, f"User {access.user}: {access.rights}. Contains the password.")
    return "".join(f"{mark} {line}\n" for line in lines)


def _java(access: Access) -> str:
    """The certificate is one line, since a properties file has no other form of a long value that
    both Java and our verbs read; both take blanks in PEM."""
    return _about(
        access,
        "#",
        "For Java clients, Kafka's tools and minikafka's verbs (--command-config).",
    ) + _properties(
        {
            "bootstrap.servers": access.bootstrap,
            "security.protocol": PROTOCOL,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": " ".join(access.authority_pem.split("\n")).strip(),
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": jaas_entry(access.user, access.password),
        }
    )


def _librdkafka(access: Access) -> str:
    return _about(access, "#", "For clients on librdkafka, e.g. kcat -F FILE.") + _properties(
        {
            "bootstrap.servers": access.bootstrap,
            "security.protocol": PROTOCOL,
            "ssl.ca.location": access.authority_path,
            "sasl.mechanism": MECHANISM,
            "sasl.username": access.user,
            "sasl.password": access.password,
        }
    )


def _confluent_kafka(access: Access) -> str:
    values = {
        "bootstrap.servers": access.bootstrap,
        "security.protocol": PROTOCOL,
        "ssl.ca.pem": _Name("CA"),
        "sasl.mechanism": MECHANISM,
        "sasl.username": access.user,
        "sasl.password": access.password,
    }
    what = "For confluent-kafka: Producer(CONFIG), Consumer(CONFIG | {...}), AdminClient(CONFIG)."
    return _python(access, what, "", CONFIG=values)


def _context(access: Access, what: str) -> str:
    values = {
        "bootstrap_servers": access.bootstrap.split(","),
        "security_protocol": PROTOCOL,
        "ssl_context": _Name("ssl.create_default_context(cadata=CA)"),
        "sasl_mechanism": MECHANISM,
        "sasl_plain_username": access.user,
        "sasl_plain_password": access.password,
    }
    return _python(access, what, "import ssl\n\n", CONFIG=values)


def _kafka_python(access: Access) -> str:
    return _context(access, "For kafka-python: KafkaProducer(**CONFIG), KafkaConsumer(**CONFIG).")


def _aiokafka(access: Access) -> str:
    what = "For aiokafka: AIOKafkaProducer(**CONFIG), AIOKafkaConsumer(topic, **CONFIG)."
    return _context(access, what)


def _minikafka(access: Access) -> str:
    values = {
        "bootstrap_servers": access.bootstrap,
        "security_protocol": PROTOCOL,
        "ssl_truststore_certificates": _Name("CA"),
        "sasl_mechanism": MECHANISM,
        "sasl_username": access.user,
        "sasl_password": access.password,
    }
    what = "For minikafka.aio: Producer(**CONFIG), Consumer(topics=[...], **CONFIG)."
    return _python(access, what, "", CONFIG=values)


def _spark(access: Access) -> str:
    values = {
        "kafka.bootstrap.servers": access.bootstrap,
        "kafka.security.protocol": PROTOCOL,
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": _Name("CA"),
        "kafka.sasl.mechanism": MECHANISM,
        "kafka.sasl.jaas.config": jaas_entry(access.user, access.password),
    }
    what = (
        'For Spark: spark.readStream.format("minikafka").options(**OPTIONS), and format("kafka") '
        "with CONNECTOR_OPTIONS."
    )
    # Spark's own connector reads as a member of groups that it names.
    connector = {"**": _Name("OPTIONS"), "groupIdPrefix": f"{access.prefix}spark"}
    return _python(access, what, "", OPTIONS=values, CONNECTOR_OPTIONS=connector)


def _kafkajs(access: Access) -> str:
    values = {
        "brokers": access.bootstrap.split(","),
        "ssl": {"ca": ["CA"]},
        "sasl": {
            "mechanism": MECHANISM.lower(),
            "username": access.user,
            "password": access.password,
        },
    }
    text = json.dumps(values, indent=2).replace('"CA"', "CA")
    what = "For kafkajs: new Kafka(require('./for_kafkajs.js'))."
    about = _about(access, "//", what)
    return f"{about}const CA = `{access.authority_pem}`\nmodule.exports = {text}\n"


@dataclass(frozen=True, slots=True)
class _Name:
    """An expression, where other values are literals."""

    text: str


def _python(access: Access, what: str, imports: str, **dicts: Mapping[str, object]) -> str:
    text = f'{_about(access, "#", what)}{imports}CA = """\\\n{access.authority_pem}"""\n'
    for name, values in dicts.items():
        rows = "".join(f"    {_row(key, value)},\n" for key, value in values.items())
        text += f"{name} = {{\n{rows}}}\n"
    return text


def _row(key: str, value: object) -> str:
    text = value.text if isinstance(value, _Name) else json.dumps(value)
    return f"**{text}" if key == "**" else f"{json.dumps(key)}: {text}"


def _properties(values: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in values.items())


FILES: Final[Mapping[str, Callable[[Access], str]]] = MappingProxyType(
    {
        COMMAND_CONFIG: _java,
        "librdkafka.properties": _librdkafka,
        "for_confluent_kafka.py": _confluent_kafka,
        "for_kafka_python.py": _kafka_python,
        "for_aiokafka.py": _aiokafka,
        "for_minikafka_aio.py": _minikafka,
        "for_spark.py": _spark,
        "for_kafkajs.js": _kafkajs,
    }
)
