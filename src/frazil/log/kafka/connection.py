"""One connection to a broker of another cluster: TLS, SASL, the versions it speaks, one request after the other."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from frazil.kit.chance import Chance
from frazil.kit.errors import Corrupt, Refused, RetryLater
from frazil.log.kafka.scram import HASHES, client_final, client_first
from frazil.wire import Message, RequestHeader
from frazil.wire.client import decode_response, encode_request
from frazil.wire.errors import ErrorCode
from frazil.wire.frame import decode_response_header, encode_request_frame, frame_size
from frazil.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from frazil.wire.messages.registry import APIS, ApiKey
from frazil.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from frazil.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

M = TypeVar("M", bound=Message)

MECHANISMS: Final = ("PLAIN", *HASHES)
_FRAME_BYTES_MAX: Final = 512 * 1024 * 1024
_CONNECT_S: Final = 10.0
_ANSWER_S: Final = 30.0
_LIFE_USED: Final = 0.8
"""A session that ends by itself is begun anew after this part of its life (KIP-368)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSecurity:
    """How brokers are reached. Files are paths; empty texts: not used."""

    tls: bool = False
    ca_file: str = ""
    """Empty: the system's authorities."""
    cert_file: str = ""
    key_file: str = ""
    mechanism: str = ""
    username: str = ""
    password: str = field(default="", repr=False)

    def context(self) -> ssl.SSLContext | None:
        """For TLS, with host names checked. Raises Refused for files that cannot be used."""
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file or None)
        except (OSError, ssl.SSLError) as error:
            raise Refused(f"TLS to Kafka: {self.ca_file or self.cert_file}: {error}") from error
        return context


@dataclass(frozen=True, slots=True)
class KafkaAddress:
    """Of one broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class KafkaConnection:
    """Opens itself when it is used, and again after an error. Several may ask at once; they take turns."""

    def __init__(self, address: KafkaAddress, security: KafkaSecurity, chance: Chance, *, client_id: str) -> None:
        self.address = address
        self._security, self._chance, self._client_id = security, chance, client_id
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._versions: Mapping[int, tuple[int, int]] = {}
        self._correlation = 0
        self._ends_s = float("inf")
        self._turn = asyncio.Lock()

    async def version(self, api: ApiKey, most: int) -> int:
        """The newest version of an API, up to ``most``, that both sides speak. Raises Refused for a broker that is too old, RetryLater."""
        async with self._turn:
            await self._ready()
            return self._version(api, most)

    async def ask(self, api: ApiKey, version: int, request: Message, want: type[M]) -> M:
        """The answer. Raises RetryLater when there is none, Refused when the broker does not let us in, Corrupt."""
        async with self._turn:
            await self._ready()
            return await self._ask(api, version, request, want)

    async def close(self) -> None:
        """Closes the connection."""
        writer, self._reader, self._writer = self._writer, None, None
        if writer is not None:
            writer.close()

    async def _ready(self) -> None:
        if asyncio.get_running_loop().time() >= self._ends_s:
            await self.close()
        if self._writer is not None:
            return
        try:
            async with asyncio.timeout(_CONNECT_S):
                self._reader, self._writer = await asyncio.open_connection(
                    self.address.host, self.address.port, ssl=self._security.context()
                )
        except ssl.SSLCertVerificationError as error:
            raise Refused(f"Kafka broker {self.address}: its certificate is not trusted: {error.verify_message}; see tls.caFile") from error
        except (OSError, TimeoutError) as error:
            raise RetryLater(f"Kafka broker {self.address} cannot be reached: {error or 'no answer in time'}") from error
        self._ends_s = float("inf")
        try:
            answer = await self._ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), ApiVersionsResponse)
            self._versions = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
            if self._security.mechanism:
                await self._sign_in()
        except BaseException:
            await self.close()
            raise

    def _version(self, api: ApiKey, most: int) -> int:
        ours = APIS[api]
        low, high = self._versions.get(api, (0, -1))
        version = min(most, high, ours.version_max)
        if version < max(low, ours.version_min):
            raise Refused(
                f"Kafka broker {self.address} speaks {ours.name} {low}-{high}, not {ours.version_min}-{most}; want Kafka 1.0 or later"
            )
        return version

    async def _ask(self, api: ApiKey, version: int, request: Message, want: type[M]) -> M:
        reader, writer = self._reader, self._writer
        if reader is None or writer is None:
            raise RetryLater(f"no connection to Kafka broker {self.address}")
        self._correlation += 1
        header = RequestHeader(api, version, self._correlation, self._client_id, 0)
        whole = False
        try:
            writer.write(encode_request_frame(header, encode_request(api, version, request)))
            async with asyncio.timeout(_ANSWER_S):
                await writer.drain()
                prefix = await reader.readexactly(4)
                frame = memoryview(await reader.readexactly(frame_size(prefix, _FRAME_BYTES_MAX)))
            whole = True
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            raise RetryLater(f"Kafka broker {self.address} did not answer {APIS[api].name}: {error!r}") from error
        finally:
            if not whole:  # also when cancelled: the answer to come would be taken for the next one's
                await self.close()
        correlation, position = decode_response_header(api, version, frame)
        answer = decode_response(api, version, frame, position)
        if correlation != self._correlation or not isinstance(answer, want):
            await self.close()
            raise Corrupt(f"answer {correlation} is {type(answer).__name__}, not {want.__name__}", where=str(self.address))
        return answer

    # --- SASL --------------------------------------------------------------------------------------------------------

    async def _sign_in(self) -> None:
        security = self._security
        handshake = await self._ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=security.mechanism), SaslHandshakeResponse)
        if handshake.error_code:
            offered = ", ".join(handshake.mechanisms)
            raise Refused(f"Kafka broker {self.address} does not take SASL {security.mechanism}; it takes {offered or 'none'}")
        if security.mechanism == "PLAIN":
            await self._authenticate(b"\0" + security.username.encode() + b"\0" + security.password.encode())
            return
        nonce = f"{self._chance.getrandbits(128):032x}"
        challenge = await self._authenticate(client_first(security.username, nonce))
        proof = client_final(security.mechanism, security.username, security.password, nonce, challenge)
        if await self._authenticate(proof.message) != proof.server_final:
            raise Refused(f"Kafka broker {self.address} does not know the password of {security.username}: it may be another's")

    async def _authenticate(self, message: bytes) -> bytes:
        version = self._version(ApiKey.SASL_AUTHENTICATE, 1)
        answer = await self._ask(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse)
        if answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED:
            who = f"user {self._security.username!r}, {self._security.mechanism}"
            raise Refused(f"Kafka broker {self.address} does not let {who} in: {answer.error_message or 'authentication failed'}")
        if answer.error_code:
            raise RetryLater(f"Kafka broker {self.address}: SASL error {answer.error_code}: {answer.error_message}")
        if answer.session_lifetime_ms > 0:
            self._ends_s = asyncio.get_running_loop().time() + answer.session_lifetime_ms / 1000 * _LIFE_USED
        return bytes(answer.auth_bytes)
