"""The suite that every store engine and wrapper must pass. Production code never imports it; third parties may.

    class TestMyStore(StoreSuite, ReopenSuite, SecondHandleSuite):
        @pytest.fixture
        async def store(self, tmp_path: Path) -> AsyncIterator[Store]: ...   # StoreSuite: an empty store

        @pytest.fixture
        def reopen(self, ...) -> Reopen: ...       # ReopenSuite: closes that store and opens it again (durable stores)

        @pytest.fixture
        async def second(self, ...) -> AsyncIterator[Store]: ...  # SecondHandleSuite: another handle on that store

A store whose `capabilities` do not declare `durable` or many writers leaves out the suite for that capability.
Requires only pytest and the anyio plugin.
"""

import pytest

# This must run before the modules are imported: without rewriting, a failed assertion shows no values.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{topic}"
        for topic in (
            "blobs",
            "commits",
            "compaction",
            "concurrency",
            "erasure",
            "examples",
            "health",
            "idempotency",
            "isolation",
            "reads",
            "shared",
            "suites",
        )
    )
)

from elytron_conformance.second_handle import SecondHandleSuite  # noqa: E402 - must follow the registration above
from elytron_conformance.suites import Reopen, ReopenSuite, StoreSuite  # noqa: E402 - must follow it too

__all__ = ["Reopen", "ReopenSuite", "SecondHandleSuite", "StoreSuite"]
