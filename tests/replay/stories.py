"""Small stories for the tests of the runner and the matrix."""

import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from pydantic import JsonValue

import elytron
from elytron import MemoryRuntime
from elytron_core.clock import Clock
from elytron_core.ids import IdSource
from elytron_core.ports.models import LanguageModel
from elytron_core.ports.store import Batch, CommitReceipt
from elytron_core.profiles import ProfileName
from elytron_core.scope import Scope
from elytron_replay.fixture import Fixture, parse_fixture
from elytron_replay.runner import ReplayEngine
from elytron_store.memory import MemoryStore

SHIPPED = sorted((Path(__file__).parents[2] / "fixtures").glob("*.json"))


def say(text: str) -> dict[str, JsonValue]:
    """Return the request that writes `text` as a turn."""
    return {
        "write": {"kind": "transcript", "turns": [{"messages": [{"role": "user", "speaker": "Ada", "text": text}]}]}
    }


def story(*steps: dict[str, JsonValue], **changes: JsonValue) -> dict[str, JsonValue]:
    """Return a story of one space with these `steps`."""
    told: list[JsonValue] = list(steps)
    return {
        "format": "elytron.fixture",
        "version": 1,
        "id": "tea",
        "title": "Ada likes tea.",
        "spaces": ["ada"],
        "scope": {"space": "ada"},
        "clock": {"start": "2026-01-01T00:00:00Z"},
        "steps": told,
        **changes,
    }


def read(plain: dict[str, JsonValue]) -> Fixture:
    """Return the fixture of a story."""
    return parse_fixture(json.dumps(plain).encode(), name=f"{plain['id']}.json")


def written(folder: Path, plain: dict[str, JsonValue]) -> Path:
    """Write a story into `folder`; return its path."""
    path = folder / f"{plain['id']}.json"
    path.write_text(json.dumps(plain), "utf-8")
    return path


class LosingStore(MemoryStore):
    """A store that acknowledges turns and discards them."""

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        kept = tuple(put for put in batch.puts if put.ref.collection != "turns")
        return await super().commit(
            Batch(batch.space, batch.at, batch.entries, kept, batch.deletes, idempotency=batch.idempotency)
        )


def losing() -> ReplayEngine:
    """Return an engine whose stores lose turns."""

    def opener(
        _: Path,
        /,
        *,
        scope: Scope | None,
        clock: Clock,
        ids: IdSource,
        language_model: LanguageModel | None = None,
        profile: ProfileName | None = None,
    ) -> AbstractAsyncContextManager[MemoryRuntime]:
        return elytron.open(
            LosingStore(),
            space=None,
            scope=scope,
            clock=clock,
            ids=ids,
            language_model=language_model,
            profile=profile,
        )

    return ReplayEngine("losing", opener, durable=False)
