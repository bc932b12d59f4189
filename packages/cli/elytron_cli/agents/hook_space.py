"""The space of a hook: that of `--space`, of the repository, or on a server; and the memory opened for it."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import elytron
from elytron.runtime import MemoryRuntime
from elytron_assistants.hooks.activity import store_digest
from elytron_assistants.hooks.events import HookEvent
from elytron_assistants.hooks.runner import HookMemory
from elytron_assistants.project_identity import repository_of
from elytron_assistants.project_registry import ProjectMemory, project_memory
from elytron_assistants.tiers import TieredMemory
from elytron_cli.config import RunSettings
from elytron_cli.session import open_session
from elytron_core import limits
from elytron_core.scope import Scope
from elytron_store import WhenMissing, parse_url


@dataclass(frozen=True, slots=True)
class HookPlace:
    """Where sessions store their memory: in `space`, or with `per_repository` in each repository's and the person's."""

    settings: RunSettings
    space: str
    per_repository: bool = False
    url: str | None = None
    key: str | None = field(default=None, repr=False)

    @asynccontextmanager
    async def open_memory(
        self, environment: Mapping[str, str], event: HookEvent, /, *, is_stored: bool
    ) -> AsyncGenerator[HookMemory]:
        """Open the memory of an event's folder; a missing store is only created for storing."""
        if self.url is not None:
            async with elytron.connect(self.url, api_key=self.key) as memory:
                space = server_space(event, self.space, environment, per_repository=self.per_repository)
                yield HookMemory(memory.operate, _scope_of(event, space, environment), store_digest(self.url))
            return
        when_missing = WhenMissing.MAKE if is_stored else WhenMissing.PRETEND
        async with open_session(self.settings, when_missing=when_missing, loads_search=not is_stored) as session:
            yield await self.memory_of(session.runtime, environment, event)

    @property
    def has_store(self) -> bool:
        """Return whether there is a store that a resident process could open."""
        path = parse_url(self.settings.store.value).path
        return path is None or path.exists()

    async def memory_of(
        self, runtime: MemoryRuntime, environment: Mapping[str, str], event: HookEvent, /
    ) -> HookMemory:
        """Return the memory of an event's folder in an open store."""
        store = store_digest(self.settings.store.value)
        if not self.per_repository:
            project_place, operate = ProjectMemory(person=self.space), runtime.operate
        else:
            folder, cwd = event.folder(environment), Path(event.cwd) if event.cwd else None
            project_place = await project_memory(runtime, folder, person=self.space, cwd=cwd)
            operate = TieredMemory(runtime, runtime.operate, project_place).operate
        return HookMemory(
            operate, _scope_of(event, project_place.spaces[0], environment), store, runtime, project_place
        )


def server_space(event: HookEvent, space: str, environment: Mapping[str, str], /, *, per_repository: bool) -> str:
    """Return the space on a server, for which the registry of projects is not read."""
    folder = event.folder(environment) if per_repository else None
    repository = repository_of(folder) if folder is not None else None
    return repository.space if repository is not None else space


def _scope_of(event: HookEvent, space: str, environment: Mapping[str, str]) -> Scope:
    """Return the scope for a session's turns: its own conversation, in its project."""
    folder = event.folder(environment)
    project = folder.name[: limits.NAME_CHARS].strip() if folder is not None else None
    channel = event.contract.sessions.value
    return Scope(space=space, channel=channel, conversation=event.session, project=project or None)
