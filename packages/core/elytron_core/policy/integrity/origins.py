"""Memories of one origin: a tool, a page, an uploaded file. An origin is known by the host's name for it."""

from typing import Final, assert_never

from elytron_core.contracts.knowledge.control import Origin, OriginKind
from elytron_core.planes.conversation import transcript
from elytron_core.planes.conversation.host_refs import HostRefRelation
from elytron_core.planes.evidence import Trust
from elytron_core.planes.roles import Role

SOURCES: Final = frozenset({"url", "uri", "source", "resource_id", "upload_id"})
"""The metadata keys under which a turn names the page or file that it came from."""


def parts_through(turn: transcript.Turn, origin: Origin, /) -> tuple[int, ...]:
    """Return the numbers of the turn's messages that came through `origin`; what the user said beside it stays."""
    match origin.kind:
        case OriginKind.TOOL:
            return _through_tool(turn, origin.name)
        case OriginKind.PAGE | OriginKind.UPLOAD:
            return _through_source(turn, origin.name)
        case _:
            assert_never(origin.kind)


def _through_tool(turn: transcript.Turn, name: str) -> tuple[int, ...]:
    is_used = any(seen.tool_name == name for seen in turn.tool_observations)
    has_its_words = any(message.role is Role.TOOL and message.speaker == name for message in turn.messages)
    if not is_used and not has_its_words:
        return ()
    return tuple(
        part
        for part, message in enumerate(turn.messages)
        if message.role is Role.ASSISTANT or (message.role is Role.TOOL and message.speaker in {None, name})
    )


def _through_source(turn: transcript.Turn, name: str) -> tuple[int, ...]:
    refs = [ref for ref in turn.host_refs if ref.business_ref_id == name]
    is_named = any(turn.metadata.get(key) == name for key in SOURCES)
    if any(ref.relation is HostRefRelation.ORIGIN for ref in refs):
        return tuple(range(len(turn.messages)))
    if not refs and not is_named:
        return ()
    return tuple(part for part in range(len(turn.messages)) if turn.trust_of(part) is not Trust.VOUCHED)
