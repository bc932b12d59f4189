"""Values that may differ between stores without being a difference. MAY_DIFFER is the whole list."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from elytron_replay.comparison.json_diff import below

MAY_DIFFER: Mapping[str, str] = {
    "engine": "the store's own name (inspect)",
    "store": "what the store can promise (inspect)",
    "size_bytes": "an archive's size on disk (export)",
    "index_bytes": "what the index happens to hold in memory (inspect)",
    "checkpoints_written": "a store that was opened again writes them again (recover, close)",
    "capabilities.capacity": "what the store may hold at most (inspect)",
    "capacity": "the same (capabilities)",
    "store_check.blobs": "index checkpoints, which a store may or may not have at that moment (inspect, recover)",
}
"""Path in a report, and why. Such a field must be there; its value is not compared."""

LEFT_OUT = "(differs by nature)"
TMP = "${tmp}"


def normalised(report: JsonValue, /, *, folder: Path) -> JsonValue:
    """Return `report` without what differs by nature; paths in the story's folder begin with `${tmp}`."""
    return _normalised(report, path="", folder=str(folder))


def _normalised(value: JsonValue, *, path: str, folder: str) -> JsonValue:
    if path in MAY_DIFFER:
        return LEFT_OUT
    match value:
        case dict():
            return {key: _normalised(part, path=below(path, key), folder=folder) for key, part in value.items()}
        case list():
            return [_normalised(part, path=below(path, place), folder=folder) for place, part in enumerate(value)]
        case str():
            return value.replace(folder, TMP)
        case _:
            return value
