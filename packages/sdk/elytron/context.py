"""What operations work with."""

from dataclasses import dataclass, field

from elytron.folding import Folds
from elytron.heads import Heads
from elytron.spaces import Spaces
from elytron_core.clock import Clock
from elytron_core.contracts.scoped import ScopedRequest
from elytron_core.errors import ScopeMissing
from elytron_core.ids import Ids
from elytron_core.ports.models import Embedder, LanguageModel, Reranker
from elytron_core.ports.store import Store
from elytron_core.scope import Scope


@dataclass(frozen=True, slots=True)
class Models:
    """The models that a runtime was given; each may be missing."""

    language: LanguageModel | None = None
    embedder: Embedder | None = None
    reranker: Reranker | None = None


@dataclass(frozen=True, slots=True)
class OperationContext:
    """The store and the ports beside it, and what this runtime remembers of them."""

    store: Store
    engine: str
    clock: Clock
    ids: Ids
    spaces: Spaces
    heads: Heads
    folds: Folds
    models: Models = Models()
    default_scope: Scope | None = None
    closing: list[str] = field(default_factory=list[str])
    """Why the runtime was closed; empty while it is open."""

    def scope_of(self, request: ScopedRequest, /) -> Scope:
        """Return the scope of `request`, else the runtime's own. Raises ScopeMissing where there is neither."""
        scope = request.scope or self.default_scope
        if scope is None:
            raise ScopeMissing(
                operation=type(request).__name__, way_out="give the request a scope, or open the runtime with space="
            )
        return scope
