"""Context of operations: the runtime's parts and settings."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final

from elytron.indexing.checkpoints import Progress
from elytron.indexing.index_manager import SpaceIndexes
from elytron.journal.follower import CommitWaiters, reach_sequence
from elytron.secrets.credential_key import CredentialKey
from elytron.secrets.space_secrets import SpaceSecrets
from elytron.state.change_lines import ChangeLines
from elytron.state.conversation_heads import HeadCache
from elytron.state.encoders import RuntimeEncoders
from elytron.state.losses import StoreLosses
from elytron.state.recent_use import FactUses, LastBlocks, LastConversations
from elytron.state.skill_directories import SkillDirs
from elytron.state.space_records import SpaceRecords
from elytron.state.stored_messages import ImportedMessages
from elytron_core.clock import Clock, Instant
from elytron_core.contracts.inspection import CapabilityPolicy
from elytron_core.errors import PermissionRefused, ScopeMissing
from elytron_core.ids import RESERVED, IdSource, SpaceId, is_reserved
from elytron_core.model import Value
from elytron_core.policy.extraction.rule_facts import FactReader
from elytron_core.policy.platform.profiles import default_profile
from elytron_core.policy.spending_budget import SpendingBudget
from elytron_core.ports.models import (
    AskClassifier,
    Embedder,
    LanguageModel,
    QuestionClassifier,
    Reranker,
    StatementClassifier,
)
from elytron_core.ports.store import Store
from elytron_core.profiles import HostProfile, StoreCapacity
from elytron_core.scope import Scope, ScopedRequest, is_scoped
from elytron_index.lexicon.classifiers import (
    LinearAskClassifier,
    LinearQuestionClassifier,
    PhraseStatementClassifier,
)
from elytron_store.secret.sessions import current_caller


@dataclass(frozen=True, slots=True)
class RuntimeModels:
    """The models given to a runtime; each may be missing."""

    language: LanguageModel | None = None
    embedder: Embedder | None = None
    former_embedder: Embedder | None = None
    """Made the vectors that recall compares until those of `embedder` are complete."""
    reranker: Reranker | None = None
    fact_readers: tuple[FactReader, ...] = ()
    """Readers of facts in languages that do not ship."""
    statements: StatementClassifier = field(default_factory=PhraseStatementClassifier)
    """Judges which texts state something lasting."""
    questions: QuestionClassifier = field(default_factory=LinearQuestionClassifier)
    asks: AskClassifier = field(default_factory=LinearAskClassifier)
    """Judges which prompts ask memory, where memories are shown unasked."""
    closers: tuple[Callable[[], Awaitable[None]], ...] = ()
    """Functions that close models opened for this runtime."""


class JobBlocked(Exception):
    """A job that cannot run now, which is no failure: it is blocked until then."""

    def __init__(self, blocked_until: Instant, reason: str, /) -> None:
        super().__init__(reason)
        self.until = blocked_until
        self.reason = reason


AT_ONCE: Final = Instant(0)
Beat = Callable[[], Awaitable[None]]
"""Renews the lease of a job; raises if another worker has it by now."""
JobRunner = Callable[[Scope, str, Beat], Awaitable[None]]
"""Runs a job: it gets its scope, its payload, and its lease's renewal. It may be called again for work already done."""


@dataclass(frozen=True, slots=True)
class OperationContext:
    """The store and the ports next to it, and what this runtime caches of them."""

    store: Store
    secrets: SpaceSecrets
    credential_key: CredentialKey
    engine: str
    clock: Clock
    ids: IdSource
    spaces: SpaceRecords
    heads: HeadCache
    folds: SpaceIndexes
    losses: StoreLosses
    encoders: RuntimeEncoders
    models: RuntimeModels = RuntimeModels()
    budget: SpendingBudget = field(default_factory=SpendingBudget)
    """Daily budget of the language model for each space."""
    lines: ChangeLines = field(default_factory=ChangeLines)
    """Queues of changes to one document."""
    commits: CommitWaiters = field(default_factory=CommitWaiters)
    """Notifies waiters that this runtime has changed a space."""
    profile: HostProfile = field(default_factory=default_profile)
    """The profile: the platform and its hard limits."""
    capacity: StoreCapacity | None = None
    """Limit of the store; None if only its device limits it."""
    capability_policy: CapabilityPolicy = CapabilityPolicy.OPEN
    entries: set[str] = field(default_factory=set[str])
    """Servers of this runtime, by the catalog's names; each adds itself when it is up."""
    skill_dirs: SkillDirs = field(default_factory=SkillDirs)
    """The host's directories of agent skills, which are only read."""
    last_blocks: LastBlocks = field(default_factory=LastBlocks)
    """Tracks how much of a block is unchanged since the previous turn."""
    last_conversations: LastConversations = field(default_factory=LastConversations)
    """Remembers where turns were committed last."""
    fact_uses: FactUses = field(default_factory=FactUses)
    """Remembers when facts were shown, until that is stored."""
    imported: ImportedMessages = field(default_factory=ImportedMessages)
    """Remembers the conversation that an import was last compared with."""
    default_scope: Scope | None = None
    is_bound: bool = False
    """True if callers cannot choose another scope, as for an agent."""
    caller: str = "host"
    """The caller in the audit: a principal, or the transport of a call without one."""
    audit_id: str | None = None
    """The id in the caller's own records."""
    source: str | None = None
    """The caller's own name for itself."""
    progress: Progress | None = None
    """Called while a space is read for a check, with the progress and the total."""
    notes_projections: bool = False
    """If true, each projection leaves an entry in the journal."""
    interrupted: dict[tuple[SpaceId, str], str] = field(default_factory=dict[tuple[SpaceId, str], str])
    """Holders of the jobs interrupted by a lock of their space, until they are returned to the queue."""
    put_off: dict[SpaceId, Instant] = field(default_factory=dict[SpaceId, Instant])
    """Spaces with jobs that this runtime has queued or seen, and when to look at their queues."""
    runners: dict[str, JobRunner] = field(default_factory=dict[str, JobRunner])
    """Runners of jobs of further kinds, by kind. Jobs of other kinds are left to other processes."""
    closers: list[Callable[[], Awaitable[None]]] = field(default_factory=list[Callable[[], Awaitable[None]]])
    """Tasks that end with the runtime, before its store is closed."""
    closing: list[str] = field(default_factory=list[str])
    """Why the runtime was closed; empty while it is open."""

    def forget(self, space: SpaceId, /) -> None:
        """Clear all caches of a space that its user's secret closed."""
        self.spaces.forget(space)
        self.heads.drop_space(space)
        self.folds.drop(space)
        self.fact_uses.forget(space)
        self.imported.forget()
        self.last_conversations.forget(space)

    def note_jobs(self, space: SpaceId, due_at: Instant = AT_ONCE, /) -> None:
        """Schedule a look at the queue of `space` from `due_at` on, by default immediately."""
        self.put_off[space] = min(due_at, self.put_off.get(space, due_at))

    def waiting_spaces(self) -> list[SpaceId]:
        """Return the spaces whose queues are due for a look."""
        now = self.clock.now()
        return [space for space, due_at in self.put_off.items() if due_at <= now]

    async def reached(self, request: Value, /) -> Value:
        """Return `request` without its required sequence, once its space has reached it.

        Raises SequenceAhead if the journal does not come to it in time.
        """
        if not is_scoped(request) or not request.min_sequence:
            return request
        await reach_sequence(self.store, self.commits, self.scope_of(request).space, request.min_sequence)
        return request.model_copy(update={"min_sequence": 0})

    async def settled(self, request: Value, /) -> None:
        """Wait until no answer to `request` can show content whose erasure a dead process had begun."""
        scope = request.scope or self.usual_scope if is_scoped(request) else None
        if scope is not None:
            await self.spaces.settle(scope.space)

    @property
    def usual_scope(self) -> Scope | None:
        """Return the default scope of calls; an operator by its key has none."""
        return self.default_scope if self.is_bound or not current_caller().names_spaces else None

    def bound_to(self, scope: Scope, /, *, caller: str) -> "OperationContext":
        """Return the context for calls of `caller` within `scope`."""
        return replace(self, default_scope=scope, is_bound=True, caller=caller)

    def scope_of(self, request: ScopedRequest, /) -> Scope:
        """Return the scope of `request`, else the runtime's own.

        Raises ScopeMissing if the caller has neither, PermissionRefused for a space or agent of the system's own.
        """
        scope = request.scope or self.usual_scope
        if scope is None:
            raise ScopeMissing(
                operation=type(request).__name__, way_out="pass a user_id or a scope, or open the runtime with space="
            )
        if is_reserved(scope.space) or (scope.agent is not None and is_reserved(scope.agent)):
            prefixes = " or ".join(map(repr, RESERVED))
            problem = (
                f"names of spaces and agents that begin with {prefixes} are reserved for the system: choose another"
            )
            raise PermissionRefused(problem)
        return scope
