"""Keys of vectors: they begin with the document of their texts."""

from hashlib import blake2b

from elytron_core.errors import StoreCorrupt
from elytron_core.planes.embedding import EMBEDDING, KEY, VECTORS
from elytron_core.planes.space import COLLECTIONS
from elytron_core.ports.store import Ref

CHOICE = Ref(EMBEDDING, KEY)
_KINDS = {name: blake2b(name.encode(), digest_size=2).hexdigest() for name in COLLECTIONS}
"""Keys have no letters beyond f, so a collection is four digits in them."""
_COLLECTIONS = {digits: name for name, digits in _KINDS.items()}
assert len(_COLLECTIONS) == len(_KINDS)


def vectors_prefix(source: Ref, /) -> str:
    """Return how the keys of all vectors of the document `source` begin."""
    return f"{_KINDS[source.collection]}.{source.key}."


def vectors_ref(source: Ref, model_tag: str, /) -> Ref:
    """Return where the vectors of the document `source` by one model stand."""
    return Ref(VECTORS, vectors_prefix(source) + model_tag)


def source_of(ref: Ref, /) -> tuple[Ref, str]:
    """Return the document of the vectors at `ref`, and the tag of their model. Raises StoreCorrupt."""
    kind, _, rest = ref.key.partition(".")
    key, _, model_tag = rest.rpartition(".")
    if kind not in _COLLECTIONS or not key:
        raise StoreCorrupt(what="the place of a stored vector")
    return Ref(_COLLECTIONS[kind], key), model_tag
