"""Every shipped story has its recorded fingerprints on Postgres, in each mode and over several nodes."""

import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from tests.replay.stories import SHIPPED
from tests.replay.test_quality_gate import CASES
from tests.store.postgres_rig import empty_tables, open_tables
from tests.store.postgres_server import PostgresServer

import elytron
from elytron import MemoryRuntime
from elytron.api.calls import ReportT
from elytron_core.clock import Clock
from elytron_core.contracts.inspection import MemoryCloseRequest
from elytron_core.ids import IdSource
from elytron_core.model import OperationRequest
from elytron_core.ports.models import LanguageModel
from elytron_core.profiles import ProfileName
from elytron_core.scope import Scope
from elytron_replay import render_matrix, render_wall, run_matrix, run_wall
from elytron_replay.gates import WallSize
from elytron_replay.matrix import FixtureVerdict
from elytron_replay.runner import ReplayEngine, passing_key

pytestmark = pytest.mark.anyio


class PostgresOpener:
    """Opens the store in one database; a new folder starts with it empty."""

    def __init__(self, url: str, *, way: str, nodes: int) -> None:
        self._url = url
        self._nodes = nodes
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

        def node() -> AbstractAsyncContextManager[MemoryRuntime]:
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

        return scattered_over([node() for _ in range(self._nodes)])


OF_ONE_NODE = {"two-languages"}
"""Stories in which two nodes show facts: each holds that until closing, and so leaves its own entry."""


class ScatteredRuntime(MemoryRuntime):
    """Several nodes over one store: each call is made on any of them."""

    def __init__(self, nodes: Sequence[MemoryRuntime]) -> None:
        super().__init__(nodes[0].context)
        self._nodes = nodes
        self._chance = random.Random(len(nodes))

    async def operate(self, request: OperationRequest[ReportT], /) -> ReportT:
        if isinstance(request, MemoryCloseRequest):
            for node in self._nodes[1:]:
                await node.operate(request)
            return cast("ReportT", await self._nodes[0].operate(request))
        return await self._chance.choice(self._nodes).operate(request)


@asynccontextmanager
async def scattered_over(nodes: Sequence[AbstractAsyncContextManager[MemoryRuntime]]) -> AsyncGenerator[MemoryRuntime]:
    """Open `nodes`, and yield a runtime that is all of them."""
    async with AsyncExitStack() as stack:
        yield ScatteredRuntime([await stack.enter_async_context(node) for node in nodes])


@pytest.mark.timeout(280)  # some thousand sequential server calls, which wait long on a busy machine
@pytest.mark.parametrize(("way", "nodes"), [("function", 2), ("portable", 1), ("sealed", 4)])
async def test_every_shipped_story_ends_as_recorded(postgres: PostgresServer, way: str, nodes: int) -> None:
    url = postgres.make_database()
    await (await open_tables(url, sealed=way == "sealed")).close()
    engine = ReplayEngine("postgres", PostgresOpener(url, way=way, nodes=nodes), kind="postgres")
    report = await run_matrix([path for path in SHIPPED if nodes == 1 or path.stem not in OF_ONE_NODE], [engine])
    # A small device has no database server.
    held = [row for row in report.rows if row.verdicts["postgres"] is not FixtureVerdict.BARRED]
    assert all(row.ok for row in held), render_matrix(report)
    assert len(held) >= len(SHIPPED) - 2


async def test_the_quality_wall_holds_over_two_nodes(postgres: PostgresServer) -> None:
    url = postgres.make_database()
    await (await open_tables(url)).close()
    engine = ReplayEngine("postgres", PostgresOpener(url, way="function", nodes=2), kind="postgres")
    report = await run_wall(CASES, [engine], sizes=(WallSize.COMPACT,))
    assert report.ok, render_wall(report)
