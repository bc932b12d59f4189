"""Every shipped story has its recorded fingerprints on Postgres: by the function, without it, and sealed."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from tests.replay.stories import SHIPPED
from tests.store.postgres_rig import empty_tables, open_tables
from tests.store.postgres_server import PostgresServer

import elytron
from elytron import MemoryRuntime
from elytron_core.clock import Clock
from elytron_core.ids import IdSource
from elytron_core.ports.models import LanguageModel
from elytron_core.profiles import ProfileName
from elytron_core.scope import Scope
from elytron_replay import render_matrix, run_matrix
from elytron_replay.engines import ReplayEngine, passing_key
from elytron_replay.matrix import FixtureVerdict

pytestmark = pytest.mark.anyio


class PostgresOpener:
    """Opens the store in one database; a folder that was not seen before finds it empty."""

    def __init__(self, url: str, *, way: str) -> None:
        self._url = url
        self._way = way
        self._keys = passing_key() if way == "sealed" else None
        self._folder: Path | None = None

    def __call__(
        self,
        folder: Path,
        /,
        *,
        scope: Scope | None,
        clock: Clock,
        ids: IdSource,
        language_model: LanguageModel | None = None,
        profile: ProfileName | None = None,
    ) -> AbstractAsyncContextManager[MemoryRuntime]:
        if folder != self._folder:
            self._folder = folder
            empty_tables(self._url)
        way = {"function": "?sealed=no", "portable": "?sealed=no&portable=yes", "sealed": ""}[self._way]
        return elytron.open(
            f"{self._url}{way}",
            space=None,
            scope=scope,
            keys=self._keys,
            clock=clock,
            ids=ids,
            language_model=language_model,
            profile=profile,
        )


@pytest.mark.parametrize("way", ["function", "portable", "sealed"])
async def test_every_shipped_story_ends_as_recorded(postgres: PostgresServer, way: str) -> None:
    url = postgres.make_database()
    await (await open_tables(url, sealed=way == "sealed")).close()
    report = await run_matrix(SHIPPED, [ReplayEngine("postgres", PostgresOpener(url, way=way), kind="postgres")])
    # A small device has no database server.
    held = [row for row in report.rows if row.verdicts["postgres"] is not FixtureVerdict.BARRED]
    assert all(row.ok for row in held), render_matrix(report)
    assert len(held) >= len(SHIPPED) - 1
