"""What an S3 store's answer means for the caller: one of ours, with what, where, why and what to do.

obstore tells status and error code only in its text; the package is pinned and ``tests/unit/objects/test_objects_cloud.py`` holds
every case against a scripted server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from frazil.kit.errors import Conflict, FrazilError, Missing, OutcomeUnknown, Refused, RetryLater

_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>([A-Za-z0-9.]{1,80})</Code>")
_MESSAGE: Final = re.compile(r"<Message>([^<]{1,300})</Message>")
_ADDRESSES: Final = re.compile(r"\b169\.254\.\d{1,3}\.\d{1,3}\b")
_METADATA_SERVICES: Final = frozenset(("169.254.169.254", "169.254.170.2"))
"""Where machines and containers of a cloud get credentials when none are set."""
_THROTTLED: Final = (429, 503)
_BODY_HURT: Final = ("BadDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch", "IncompleteBody", "RequestTimeout")
"""The server did not get the bytes as they were sent; it stored nothing."""
_KEYS_ENDED: Final = ("ExpiredToken", "TokenRefreshRequired", "ExpiredTokenException")
_ADVICE: Final = {
    "InvalidAccessKeyId": "the store does not know the access key id; correct s3.access_key_id (or AWS_ACCESS_KEY_ID)",
    "SignatureDoesNotMatch": "the secret does not belong to the access key id; correct s3.secret_access_key (or AWS_SECRET_ACCESS_KEY)",
    "RequestTimeTooSkewed": "the clock of this machine differs from the store's by too much; set it right",
    "InvalidToken": "the session token is not valid; correct s3.session_token (or AWS_SESSION_TOKEN)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What was asked: for messages, and because a write whose answer is lost is another thing than a read."""

    verb: str
    """PUT, GET, LIST or DELETE."""
    address: str
    """``s3://bucket/key``."""
    bucket: str
    endpoint: str

    @property
    def writes(self) -> bool:
        """True when the call may have changed something though no answer came."""
        return self.verb in ("PUT", "DELETE")

    def __str__(self) -> str:
        return f"{self.verb} {self.address}"


def status_of(error: BaseException) -> int:
    """HTTP status in an error of obstore, 0 when there was no answer."""
    found = _STATUS.search(str(error))
    return int(found.group(1)) if found else 404 if isinstance(error, FileNotFoundError) else 0


def code_of(error: BaseException) -> str:
    """S3's error code (``NoSuchKey``), empty when there is none."""
    found = _CODE.search(str(error))
    return found.group(1) if found else ""


def meaning(call: Call, error: BaseException) -> FrazilError:
    """The error to raise for one of obstore's (or for a passed deadline)."""
    if isinstance(error, TimeoutError):
        return _lost(call, "no answer in time")
    status, code, text = status_of(error), code_of(error), str(error)
    if status == 0:
        return _without_answer(call, text)
    why = f"{call}: {status} {code or _first_line(text)}".rstrip()
    if code in _KEYS_ENDED:
        return Refused(f"{why}: the credentials have ended; give new ones (s3.…, AWS_…)")
    if status in _THROTTLED:
        return RetryLater(f"{why}: the store asks to slow down", after_ms=200)
    if status >= 500 and status != 501:
        return _lost(call, f"{status} {code}".rstrip())
    if code in _BODY_HURT:
        return RetryLater(f"{why}: the bytes were hurt on their way; nothing was stored", after_ms=50)
    if code == "NoSuchBucket":
        return Refused(f"{why}: there is no bucket {call.bucket} at {call.endpoint}; create it or correct the address")
    return _by_status(call, error, why)


def _by_status(call: Call, error: BaseException, why: str) -> FrazilError:
    status, code = status_of(error), code_of(error)
    if status == 404:
        return (
            Missing(f"no object {call.address}")
            if call.verb == "GET"
            else Refused(f"{why}: check bucket {call.bucket} and {call.endpoint}")
        )
    if status == 412 and call.verb == "PUT":
        return Conflict(f"object {call.address} exists")
    if status == 409:  # another request for the same key is under way; it says nothing about who wins (F87)
        return RetryLater(f"{why}: another request for the same key was under way", after_ms=50)
    if status in (401, 403) and _METADATA_SERVICES & set(_ADDRESSES.findall(str(error))):
        why = "no credentials: none are set, and the instance metadata service refuses to give any"
        return Refused(f"{call}: {why}; set s3.access_key_id and s3.secret_access_key, or AWS_…")
    if status in (401, 403):
        return Refused(f"{why}: {_ADVICE.get(code, _right_needed(call))}{_said(error)}")
    if status == 501:
        return Refused(f"{why}: the store lacks what Frazil needs (If-None-Match on PUT); use one that has it")
    return Refused(f"{why}: the store does not accept the request; check s3.region, s3.path_style and s3.endpoint{_said(error)}")


def _right_needed(call: Call) -> str:
    right = {"PUT": "s3:PutObject", "GET": "s3:GetObject", "LIST": "s3:ListBucket", "DELETE": "s3:DeleteObject"}[call.verb]
    return f"the credentials lack the right {right} there; grant it, or use others"


def _without_answer(call: Call, text: str) -> FrazilError:
    if "redirect without LOCATION" in text:
        return Refused(f"{call}: bucket {call.bucket} is in another region; correct s3.region (or AWS_REGION)")
    if _METADATA_SERVICES & set(_ADDRESSES.findall(text)):
        why = "no credentials: none are set, and the instance metadata service does not answer"
        return RetryLater(f"{call}: {why}; set s3.access_key_id and s3.secret_access_key, or AWS_…", after_ms=1000)
    if "InvalidCertificate" in text:
        return Refused(f"{call}: the certificate of {call.endpoint} is not trusted; name its authority's file in s3.ca_file")
    if "kind: Connect" in text:  # nothing was sent
        return RetryLater(f"{call}: cannot connect to {call.endpoint}; is it up, and the address right?", after_ms=500)
    return _lost(call, "the connection broke")


def _lost(call: Call, why: str) -> FrazilError:
    if call.writes:
        return OutcomeUnknown(f"{call}: {why}; it may have been applied", after_ms=100)
    return RetryLater(f"{call}: {why}", after_ms=100)


def _first_line(text: str) -> str:
    return text.partition("\n")[0][-200:]


def _said(error: BaseException) -> str:
    found = _MESSAGE.search(str(error))
    return f" (the store says: {found.group(1)})" if found else ""
