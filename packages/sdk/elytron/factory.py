"""Opening a runtime on a store."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from os import PathLike, fspath

from elytron.api import calls
from elytron.context import OperationContext, RuntimeModels
from elytron.erasure.removal import finish_erasure
from elytron.indexing.checkpoints import CheckpointPolicy, Progress
from elytron.indexing.index_manager import SpaceIndexes
from elytron.intake import bound_store, capacity_of
from elytron.journal.follower import AnnouncingStore
from elytron.runtime import MemoryRuntime, RuntimeEntering, SyncMemoryRuntime
from elytron.secrets.credential_key import CredentialKey
from elytron.secrets.space_secrets import SpaceSecrets
from elytron.state.conversation_heads import HeadCache
from elytron.state.encoders import RuntimeEncoders
from elytron.state.losses import StoreLosses
from elytron.state.skill_directories import SkillDirs
from elytron.state.space_records import SpaceRecords
from elytron_core import limits
from elytron_core.clock import Clock, SystemClock
from elytron_core.contracts.inspection import CapabilityPolicy
from elytron_core.errors import InvalidInput, StoreForeign
from elytron_core.errors.foreign_names import known_keywords
from elytron_core.ids import IdSource, RandomIds, SpaceId
from elytron_core.planes.tools import AgentToolRegistrySnapshot
from elytron_core.policy.platform.profiles import named_profile
from elytron_core.policy.spending_budget import SpendingBudget
from elytron_core.ports.models import AskClassifier, Embedder, LanguageModel, Reranker, StatementClassifier
from elytron_core.ports.store import KeyProvider, Store
from elytron_core.profiles import HostProfile, StoreCapacity
from elytron_core.scope import Scope
from elytron_store import WhenMissing, WriteDurability, open_store
from elytron_store.secret.store import SecretStore
from elytron_store.store_urls import parse_url

DEFAULT_SPACE = "default"
_SEARCH = ("elytron_index.space_index", "elytron.ops.recall")
"""Modules needed by a search."""


def _stored_profile(name: str) -> HostProfile:
    """Return the profile that a store was created for. Raises StoreForeign for an unknown one."""
    try:
        return named_profile(name)
    except InvalidInput:
        raise StoreForeign(
            "the manifest names an unknown profile: it is damaged or from a newer version; restore a backup"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenOptions:
    """Options of `open`, as it passes them on."""

    scope: Scope | None
    keys: KeyProvider | None
    clock: Clock
    ids: IdSource | None
    index_bytes: int
    durability: WriteDurability
    when_missing: WhenMissing
    models: RuntimeModels
    agent_skill_dirs: Sequence[str | PathLike[str]]
    agent_tool_registries: Sequence[AgentToolRegistrySnapshot]
    profile: str | None
    capability_policy: CapabilityPolicy
    budget: SpendingBudget
    work: bool
    api_key: str | None
    credential_secret: str | None = field(repr=False)
    progress: Progress | None
    projection_events: bool


class RuntimeOpening(RuntimeEntering[MemoryRuntime, SyncMemoryRuntime]):
    """A runtime that has not been opened yet.

    `async with` (or `await`) gives a MemoryRuntime, `with` (or `.sync()`) a SyncMemoryRuntime; leaving the block closes
    it. Nothing is opened before.

    Of the options of `open`: `profile` names the platform, whose hard limits then apply; the default is a full
    server's. `budget` limits what a model may cost a space in a day. `agent_skill_dirs` contain SKILL.md files that
    recall and projection point to. With `projection_events` each projection leaves an entry in the journal.

    `credential_secret`, 32 characters or more, is what keys of gateway users and secrets of webhooks and push are
    derived from; a store that is not sealed needs it. `gateway+http://host:port` stores everything in the store that a
    server shares, under `api_key`, and computes here. `keys` opens or creates a sealed store. `index_bytes` limits
    indexes in memory. With `WriteDurability.NORMAL` a power cut may cost a SQLite store its last writes.
    `when_missing`: what happens at a path without a store. With an `embedder` recall compares meanings;
    `former_embedder` made the compared vectors until a switch is complete; a text names an added model, a folder or a
    server. `language_model` is one, or its address (`ollama:llama3.2`); without one facts are also read in
    `fact_languages`. `statements` judges lasting statements. `work` runs deferred jobs.
    """

    loads_search: bool = True
    """False for a process of one short command: its first search then loads what searching needs, and waits for it."""

    def __init__(self, store: str | PathLike[str] | Store, options: _OpenOptions, /) -> None:
        super().__init__()
        self._store = store
        self._options = options
        self._ids = options.ids or RandomIds(options.clock)
        self._profile = named_profile(options.profile)
        self._is_named = options.profile is not None

    async def _open(self) -> MemoryRuntime:
        try:
            return await self._opened()
        except StoreForeign as error:
            if self._is_named or error.profile is None:
                raise
            # A store keeps the limits of the profile it was created for, if the opener names none.
            self._profile, self._is_named = _stored_profile(error.profile), True
            return await self._opened()

    async def _opened(self) -> MemoryRuntime:
        if isinstance(self._store, str | PathLike):
            url = fspath(self._store)
            address = parse_url(url)
            capacity = capacity_of(self._profile, address.engine, is_kept=address.path is not None)
            store = await open_store(
                url,
                clock=self._options.clock,
                keys=self._options.keys,
                ids=self._ids,
                profile=self._profile.name if self._is_named else None,
                durability=self._options.durability,
                when_missing=self._options.when_missing,
                api_key=self._options.api_key,
            )
            checkpoint_policy = (
                CheckpointPolicy.AS_THEY_GROW if store.capabilities.durable else CheckpointPolicy.AT_THE_END
            )
            return await self._started(
                self._context(await bound_store(store, capacity), address.engine, checkpoint_policy, capacity)
            )
        capacity = self._profile.capacity
        store = await bound_store(self._store, capacity)
        return await self._started(self._context(store, "given", CheckpointPolicy.AS_THEY_GROW, capacity))

    async def _started(self, context: OperationContext) -> MemoryRuntime:
        context.secrets.on_forget(context.forget)
        context.secrets.on_open(context.note_jobs)
        context.closers.append(context.secrets.close)
        if self._options.agent_tool_registries:
            await self._register(context)
        if self._options.work:
            from elytron.flows.worker import JobWorker

            worker = JobWorker(context)
            worker.start()
            context.closers.append(worker.stop)
        context.closers.extend(self._options.models.closers)
        if self.loads_search:
            for module_name in _SEARCH:
                import_module(module_name)
        return MemoryRuntime(context)

    async def _register(self, context: OperationContext) -> None:
        from elytron.ops.tools import register_all

        try:
            await register_all(context, self._options.agent_tool_registries)
        except BaseException:
            # Also for a cancelled opening: there is no runtime yet that the caller could close.
            await context.store.close()
            raise

    def _context(
        self, store: Store, engine: str, storing: CheckpointPolicy, capacity: StoreCapacity | None
    ) -> OperationContext:
        options = self._options
        secret_store = SecretStore(store, clock=options.clock)
        secrets = SpaceSecrets(
            secret_store,
            ids=self._ids,
            keys=options.keys,
            copy=_copy_space,
            is_elsewhere=engine == "gateway",
        )
        store = AnnouncingStore(secret_store)
        spaces = SpaceRecords(store, options.clock, self._ids)
        heads = HeadCache(store)

        def forget(space: SpaceId) -> None:
            spaces.forget(space)
            heads.drop_space(space)

        ctx = OperationContext(
            store=store,
            secrets=secrets,
            credential_key=CredentialKey(store, options.credential_secret),
            engine=engine,
            clock=options.clock,
            ids=self._ids,
            spaces=spaces,
            heads=heads,
            losses=StoreLosses(store),
            folds=SpaceIndexes(
                store,
                forget=forget,
                max_bytes=options.index_bytes,
                max_spaces=self._profile.budget.runtimes,
                statements=options.models.statements,
                storing=storing,
                progress=options.progress,
            ),
            encoders=RuntimeEncoders(
                options.clock, current=options.models.embedder, former=options.models.former_embedder
            ),
            models=options.models,
            budget=options.budget,
            profile=self._profile,
            capacity=capacity,
            capability_policy=options.capability_policy,
            commits=store.commits,
            skill_dirs=SkillDirs(options.agent_skill_dirs),
            default_scope=options.scope,
            progress=options.progress,
            notes_projections=options.projection_events,
        )
        spaces.ender = partial(finish_erasure, ctx)
        ctx.folds.meet_mark = spaces.meet_mark
        return ctx

    def sync(self) -> SyncMemoryRuntime:
        """Open the runtime behind blocking calls; the caller closes it.

        >>> kept = elytron.open("kept.db").sync()
        >>> kept.add("The tide table hangs in the kitchen.").changed
        True
        >>> _ = kept.close()
        """
        return SyncMemoryRuntime(self._open())


@known_keywords
def open(  # noqa: A001  (the verb of the product: `elytron.open`)
    store: str | PathLike[str] | Store = "memory:",
    /,
    *,
    space: str | None = DEFAULT_SPACE,
    scope: Scope | None = None,
    keys: KeyProvider | None = None,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    index_bytes: int = limits.INDEX_CACHE_BYTES,
    durability: WriteDurability = WriteDurability.FULL,
    when_missing: WhenMissing = WhenMissing.MAKE,
    language_model: LanguageModel | str | None = None,
    embedder: Embedder | str | None = None,
    former_embedder: Embedder | str | None = None,
    reranker: Reranker | None = None,
    fact_languages: Sequence[str | PathLike[str]] = (),
    statements: StatementClassifier | None = None,
    asks: AskClassifier | None = None,
    agent_skill_dirs: Sequence[str | PathLike[str]] = (),
    agent_tool_registries: Sequence[AgentToolRegistrySnapshot] = (),
    profile: str | None = None,
    capability_policy: CapabilityPolicy = CapabilityPolicy.OPEN,
    budget: SpendingBudget | None = None,
    work: bool = False,
    api_key: str | None = None,
    credential_secret: str | None = None,
    progress: Progress | None = None,
    projection_events: bool = False,
) -> RuntimeOpening:
    """Return a runtime to open on a path, a URL (`memory:`, `file:///folder`, `sqlite:///path.db`) or a Store.

    Calls without a scope use `scope` or `space` (None: each names one). See `RuntimeOpening`. Raises as `open_store`.

    >>> with elytron.open("memory.db", space="noor") as kept:
    ...     _ = kept.add("The tide table hangs in the kitchen.", speaker="Noor")
    """
    calls.require_store(store, keys=keys, index_bytes=index_bytes)
    base_models = RuntimeModels(None, _named_embedder(embedder), _named_embedder(former_embedder), reranker)
    options = _OpenOptions(
        scope=scope or calls.scope_of(None, user_id=space),
        keys=keys,
        clock=clock or SystemClock(),
        ids=ids,
        index_bytes=index_bytes,
        durability=calls.word_member(WriteDurability, durability, field="durability"),
        when_missing=calls.word_member(WhenMissing, when_missing, field="when_missing"),
        models=_runtime_models(language_model, base_models, fact_languages, {"statements": statements, "asks": asks}),
        agent_skill_dirs=calls.path_list(agent_skill_dirs),
        agent_tool_registries=agent_tool_registries,
        profile=profile,
        capability_policy=calls.word_member(CapabilityPolicy, capability_policy, field="capability_policy"),
        budget=budget or SpendingBudget(),
        work=work,
        api_key=api_key,
        credential_secret=credential_secret,
        progress=progress,
        projection_events=projection_events,
    )
    return RuntimeOpening(store, options)


async def _copy_space(source: Store, target: Store, space: SpaceId) -> None:
    from elytron.transfer.migration import copy_space

    await copy_space(source, target, space, own=os.urandom(16).hex())


def _runtime_models(
    language: LanguageModel | str | None,
    base_models: RuntimeModels,
    fact_languages: Sequence[str | PathLike[str]],
    classifiers: Mapping[str, StatementClassifier | AskClassifier | None],
) -> RuntimeModels:
    """Return the models that were given or named; one that is opened here is closed with the runtime."""
    ask_classifier = classifiers.get("asks")
    if ask_classifier is not None and not callable(getattr(ask_classifier, "margin", None)):
        raise InvalidInput(field="asks", problem="is no classifier of prompts: it needs `version` and `margin(prompt)`")
    models = replace(
        base_models, **{name: classifier for name, classifier in classifiers.items() if classifier is not None}
    )
    if fact_languages:
        from elytron.passes.extraction import fact_readers

        models = replace(models, fact_readers=fact_readers(calls.path_list(fact_languages)))
    if not isinstance(language, str):
        return replace(models, language=language)
    from elytron_models import TextModel, open_model

    opened_model = open_model(language)
    return replace(models, language=TextModel(opened_model), closers=(opened_model.close,))


def _named_embedder(embedder: Embedder | str | None) -> Embedder | None:
    """Return the given embedder, or the one that a text names. Raises NotFound, UnreadableFile, InvalidInput."""
    if not isinstance(embedder, str):
        return embedder
    from elytron.embedding.embedders import embedder_of

    return embedder_of(embedder)
