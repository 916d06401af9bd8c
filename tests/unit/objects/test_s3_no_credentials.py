"""No keys, and the machine's metadata service refuses: that is not a missing right on the bucket."""

from __future__ import annotations

import pytest

from frazil.kit.errors import Refused
from frazil.objects import s3errors


@pytest.mark.parametrize("address", ["169.254.169.254", "169.254.170.2"])
def test_a_metadata_service_that_refuses_is_told_as_missing_credentials(address: str) -> None:
    call = s3errors.Call(verb="LIST", address="s3://b/", bucket="b", endpoint="https://s3.test")
    text = f"Generic S3 error: Error performing PUT http://{address}/latest/api/token: Server returned non-2xx status code: 403 Forbidden"
    found = s3errors._by_status(call, Exception(text), "LIST s3://b/")
    assert isinstance(found, Refused)
    assert "no credentials" in str(found)
    assert "ListBucket" not in str(found)
