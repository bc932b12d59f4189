"""The stores that a fixture can run on, by name: `memory`, `file`, `sqlite`, `embedded`, and each of them `+sealed`."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import elytron
from elytron import MemoryRuntime
from elytron_core.clock import Clock
from elytron_core.errors import InvalidInput
from elytron_core.ids import IdSource
from elytron_core.policy.host import profile_of
from elytron_core.ports.models import LanguageModel
from elytron_core.ports.store import KeyProvider
from elytron_core.profiles import ProfileName
from elytron_core.scope import Scope

SEALED = "+sealed"
URLS: Mapping[str, Callable[[Path], str]] = {
    "memory": lambda _: "memory:",
    "file": lambda folder: f"file://{folder}/store",
    "sqlite": lambda folder: f"sqlite:///{folder}/store.db",
    "embedded": lambda folder: f"embedded://{folder}/store",
}
DEFAULT_STORES = tuple(URLS)


class StoreOpener(Protocol):
    """Opens the store in a folder, and makes it if it is not there."""

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
    ) -> AbstractAsyncContextManager[MemoryRuntime]: ...


@dataclass(frozen=True, slots=True)
class ReplayEngine:
    """A store by its name. One that is not `durable` ends with its runtime and is carried over by archive.

    `kind` is what profiles call it: some of them admit few kinds of stores.
    """

    name: str
    open: StoreOpener
    durable: bool = True
    kind: str = "given"

    def is_in(self, profile: ProfileName | None, /) -> bool:
        """Return whether `profile` has such a store."""
        admitted = profile_of(profile).engines if profile is not None else ()
        return not admitted or self.kind in admitted


def named_engine(name: str, /, *, keys: KeyProvider | None = None) -> ReplayEngine:
    """Return the engine called `name`; a sealed one is sealed with `keys`, else with a key that is not stored.

    Raises InvalidInput for an unknown name.
    """
    plain = name.removesuffix(SEALED)
    if plain not in URLS:
        known = ", ".join((*URLS, *(f"{store}{SEALED}" for store in URLS)))
        raise InvalidInput(field="store", problem=f"{name!r} cannot be replayed on; there are {known}")
    sealing = (keys or passing_key()) if plain != name else None

    def opener(
        folder: Path,
        /,
        *,
        scope: Scope | None,
        clock: Clock,
        ids: IdSource,
        language_model: LanguageModel | None = None,
        profile: ProfileName | None = None,
    ) -> AbstractAsyncContextManager[MemoryRuntime]:
        url = URLS[plain](folder)
        return elytron.open(
            url,
            space=None,
            scope=scope,
            keys=sealing,
            clock=clock,
            ids=ids,
            language_model=language_model,
            profile=profile,
        )

    return ReplayEngine(name, opener, durable=plain != "memory", kind=plain)


def named_engines(stores: Sequence[str | ReplayEngine], /, *, keys: KeyProvider | None = None) -> list[ReplayEngine]:
    """Return the engine of each of `stores`, whether it is one or the name of one. Raises InvalidInput."""
    return [named_engine(store, keys=keys) if isinstance(store, str) else store for store in stores]


def passing_key() -> KeyProvider:
    """Return a key that is not stored."""
    from elytron_store.sealed.providers import LocalKeys

    return LocalKeys({"replay": secrets.token_bytes(32)}, current="replay")
