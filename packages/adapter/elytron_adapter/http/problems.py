"""Errors as RFC 9457 problem documents. They name what is wrong and never repeat what was sent."""

from pydantic import Field

from elytron_adapter.envelope import Rejected
from elytron_adapter.failures import failure
from elytron_core.model import Value

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1


class Problem(Value):
    """Why a request was not answered. `code` is stable; `retryable` says whether trying again can help."""

    type: str
    title: str
    status: int = Field(ge=400, le=599)
    detail: str
    instance: str
    code: str
    seed_key: str
    """The same in the few words of the protocol's first hosts."""
    request_id: str
    retryable: bool
    details: dict[str, str | int] = {}


def problem(rejected: Rejected, /) -> Problem:
    """Return the problem document of `rejected`."""
    row = failure(rejected.error_key)
    return Problem(
        type=f"urn:elytron:error:{rejected.error_key}",
        title=row.title,
        status=row.status,
        detail=rejected.reason,
        instance=f"urn:elytron:request:{rejected.request_id}",
        code=rejected.error_key,
        seed_key=rejected.seed_key,
        request_id=rejected.request_id,
        retryable=rejected.retryable,
        details=rejected.details,
    )
