"""All claims on every store, with any medium."""

from elytron_store.conformance.blobs import BlobClaims
from elytron_store.conformance.commits import CommitClaims
from elytron_store.conformance.compaction import CompactionClaims
from elytron_store.conformance.concurrency import ConcurrencyClaims
from elytron_store.conformance.erasure import ErasureClaims
from elytron_store.conformance.health import HealthClaims
from elytron_store.conformance.idempotency import IdempotencyClaims
from elytron_store.conformance.isolation import IsolationClaims
from elytron_store.conformance.reads import ReadClaims


class StoreSuite(
    CommitClaims,
    ReadClaims,
    IsolationClaims,
    IdempotencyClaims,
    BlobClaims,
    ErasureClaims,
    CompactionClaims,
    HealthClaims,
    ConcurrencyClaims,
):
    """Subclass it and give the fixture `store`: an empty store, closed by the fixture."""
