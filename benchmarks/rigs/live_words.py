"""Collect all text and bytes that an object of the product can still reach."""

import gc
from array import array
from collections import OrderedDict, deque
from collections.abc import Iterator
from mmap import mmap
from weakref import ReferenceType

import numpy as np

HOLDERS = (dict, list, tuple, set, frozenset, deque, OrderedDict)


def live_bytes(root: object, /) -> Iterator[bytes]:
    """Yield each text, array and buffer that `root` reaches through containers and objects of this product."""
    seen: dict[int, object] = {}
    stack = [root]
    while stack:
        each = stack.pop()
        # The objects are kept alive, so that their ids are not reused.
        if id(each) in seen:
            continue
        seen[id(each)] = each
        match each:
            case str():
                yield each.encode("utf-8", "surrogatepass")
            case bytes() | bytearray():
                yield bytes(each)
            case mmap():
                yield each[:]
            case memoryview() | array():
                yield each.tobytes()
            case np.ndarray():
                yield np.ascontiguousarray(each).tobytes()
                stack.append(each.base)
            case _ if isinstance(each, HOLDERS) or type(each).__module__.startswith("elytron"):
                stack += [one for one in gc.get_referents(each) if not isinstance(one, type | ReferenceType)]
            case _:
                pass
