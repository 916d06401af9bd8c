"""SCRAM-SHA-256 and -512 as a client (RFC 5802, RFC 7677), without channel binding, as Kafka has it. Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

from frazil.kit.errors import Corrupt, Refused

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_ITERATIONS: Final = range(4_096, 10_000_001)
_BARE_HEADER: Final = "n,,"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The client's second message, and what the server has to answer to show that it knows the password too."""

    message: bytes
    server_final: bytes


def client_first(username: str, nonce: str) -> bytes:
    """The client's first message."""
    return f"{_BARE_HEADER}{_bare(username, nonce)}".encode()


def client_final(mechanism: str, username: str, password: str, nonce: str, server_first: bytes) -> Proof:
    """From the server's first message. Raises Corrupt when it is none, Refused when it asks for too little or too much work."""
    fields = _fields(server_first)
    try:
        server_nonce, salt, iterations = fields["r"], base64.b64decode(fields["s"], validate=True), int(fields["i"])
    except (KeyError, ValueError) as error:
        raise Corrupt(f"not a SCRAM challenge: {error!r}", where=mechanism) from error
    if not server_nonce.startswith(nonce) or server_nonce == nonce:
        raise Corrupt("the server's nonce does not go on from ours", where=mechanism)
    if iterations not in _ITERATIONS:
        raise Refused(f"{mechanism}: the server asks for {iterations} iterations; want {_ITERATIONS.start} to {_ITERATIONS.stop - 1}")
    name = HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    without_proof = f"c={base64.b64encode(_BARE_HEADER.encode()).decode()},r={server_nonce}"
    signed = b",".join((_bare(username, nonce).encode(), server_first, without_proof.encode()))
    signature = hmac.digest(hashlib.new(name, client_key).digest(), signed, name)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    server_signature = hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name)
    return Proof(
        message=f"{without_proof},p={base64.b64encode(proof).decode()}".encode(),
        server_final=b"v=" + base64.b64encode(server_signature),
    )


def _bare(username: str, nonce: str) -> str:
    return f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}"


def _fields(message: bytes) -> dict[str, str]:
    parts = message.decode("utf-8", "replace").split(",")
    return {name: value for part in parts for name, equals, value in [part.partition("=")] if equals}
