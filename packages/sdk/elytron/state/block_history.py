"""History of the blocks that this runtime has built: enough to report the equal part of the next one."""

from itertools import accumulate

from elytron_core.caches.lru import LruCache
from elytron_core.ids import SpaceId
from elytron_core.scope import ConversationKey

CONVERSATIONS_KEPT = 1_024


class LastBlocks:
    """The running hashes of each conversation's last block, line by line; no word of it."""

    def __init__(self) -> None:
        self._known: LruCache[tuple[SpaceId, ConversationKey], tuple[int, ...]] = LruCache(CONVERSATIONS_KEPT)

    def unchanged_bytes(self, space: SpaceId, key: ConversationKey, block: str, /) -> int:
        """Return how many leading bytes of `block`, in whole lines, the last one had too; remember `block`."""
        lines = block.splitlines(keepends=True)
        hashes = tuple(accumulate((hash(line) for line in lines), lambda before, line: hash((before, line))))
        before = self._known.get((space, key), ())
        self._known[space, key] = hashes
        same = 0
        for line, new, old in zip(lines, hashes, before, strict=False):
            if new != old:
                break
            same += len(line.encode())
        return same
