"""The suite every engine and wrapper proves itself by. Production code never imports it; third parties may.

    class TestMyStore(StoreSuite, ReopenSuite, SecondHandleSuite):
        @pytest.fixture
        async def store(self, tmp_path: Path) -> AsyncIterator[Store]: ...   # StoreSuite: an empty store

        @pytest.fixture
        def reopen(self, ...) -> Reopen: ...       # ReopenSuite: closes that store and opens it again (durable stores)

        @pytest.fixture
        async def second(self, ...) -> AsyncIterator[Store]: ...  # SecondHandleSuite: another handle on that store

A store leaves out the suite of what its `capabilities` do not declare: `durable`, and many writers.
Needs pytest and anyio's plugin, nothing else.
"""

import pytest

# Before the modules load: without it a failed assertion says nothing but that it failed.
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

from elytron_conformance.second_handle import SecondHandleSuite  # noqa: E402 - only after the lines above
from elytron_conformance.suites import Reopen, ReopenSuite, StoreSuite  # noqa: E402 - likewise

__all__ = ["Reopen", "ReopenSuite", "SecondHandleSuite", "StoreSuite"]
