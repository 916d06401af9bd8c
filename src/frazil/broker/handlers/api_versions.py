"""ApiVersions (key 18), versions 0-4: what this broker speaks.

Answered from the table of handlers. A version that is not served gets a v0 answer with UNSUPPORTED_VERSION and the list
(KIP-511). The response header is always v0. Tagged fields at their defaults are left out: librdkafka before 2.2 mis-skips
them. Produce is advertised from 0 although 3 is the first served: with a higher minimum old librdkafka silently sends
gzip, snappy and lz4 data uncompressed (KAFKA-18659).

Deviations: no features are finalized (KIP-584), so clients keep to the first transaction protocol and classic groups.
"""

from __future__ import annotations

from collections.abc import Sequence

from frazil.broker.registry import Call, Handler, handles
from frazil.wire.codec import encode_parts, layouts_of
from frazil.wire.errors import ErrorCode
from frazil.wire.layout import Blob
from frazil.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from frazil.wire.messages.registry import ApiKey


@handles(ApiKey.API_VERSIONS, 0, 4)
async def api_versions(call: Call[ApiVersionsRequest]) -> ApiVersionsResponse:
    """The ranges of every handler."""
    return ApiVersionsResponse(api_keys=call.services.api_ranges)


def ranges(handlers: Sequence[Handler]) -> list[ApiVersion]:
    """One line per API, by key."""
    ordered = sorted(handlers, key=lambda handler: handler.key)
    return [ApiVersion(api_key=h.key, min_version=h.advertised_first, max_version=h.last) for h in ordered]


def api_versions_refusal(handlers: Sequence[Handler]) -> Sequence[Blob]:
    """The v0 body for a version of ApiVersions that is not served (KIP-511)."""
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=ranges(handlers))
    return encode_parts(layouts_of(ApiKey.API_VERSIONS)[1], 0, response)
