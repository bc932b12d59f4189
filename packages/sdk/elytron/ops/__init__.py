"""The operations, by family. Each reads, asks a policy, commits at most one batch, and reports."""

from elytron.ops.control import correct, erase, forget
from elytron.ops.embedding import embed, switch_model
from elytron.ops.inspecting import inspect, replay
from elytron.ops.living import close, recover
from elytron.ops.moving import export, import_archive
from elytron.ops.projecting import project
from elytron.ops.reading import get, history, list_memories
from elytron.ops.recalling import recall
from elytron.ops.transcript import (
    commit_transcript,
    export_transcript,
    repair_transcript,
    replay_transcript,
    request_transcript_lifecycle,
)
from elytron.ops.writing import write

__all__ = [
    "close",
    "commit_transcript",
    "correct",
    "embed",
    "erase",
    "export",
    "export_transcript",
    "forget",
    "get",
    "history",
    "import_archive",
    "inspect",
    "list_memories",
    "project",
    "recall",
    "recover",
    "repair_transcript",
    "replay",
    "replay_transcript",
    "request_transcript_lifecycle",
    "switch_model",
    "write",
]
