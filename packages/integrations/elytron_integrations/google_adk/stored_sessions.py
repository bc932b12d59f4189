"""The session service of Google's ADK: events are turns of a conversation, and state is stored in records."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeGuard
from uuid import uuid4

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.platform import time as platform_time
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from pydantic import JsonValue
from pydantic_core import to_jsonable_python
from typing_extensions import override

from elytron.api import MemoryFace
from elytron.factory import DEFAULT_SPACE
from elytron.runtime_records import RecordDraft, RecordName, RuntimeRecords, records_of
from elytron_core.contracts.maintenance.maintenance import ExtractionMethod, MemoryFinalizeTurnRequest
from elytron_core.errors import PreconditionFailed
from elytron_core.planes.records import Record
from elytron_core.scope import Scope
from elytron_integrations.conversation_items import ConversationItems, ItemTurn, host_name, settle_change
from elytron_integrations.google_adk.events import (
    APPS_SPACE,
    ISSUER,
    NAMESPACE,
    caller_memory,
    event_item,
    session_scope,
)
from elytron_integrations.user_memory import narrowed_scope, require_open_memory

_PREFIXES: Final = (State.APP_PREFIX, State.USER_PREFIX, State.TEMP_PREFIX)
_DELETED: Final[JsonValue] = {"deleted": True}
"""Head of a session whose events are being erased."""


class ElytronSessionService(BaseSessionService):
    """Session service by user and app. Each user is a memory space, and what is said in a session can be recalled.

    An event and its state changes are one commit. App state is in a separate space, or in the user's space if the
    memory was opened for one user. The memory must be opened in this process.
    """

    def __init__(self, memory: MemoryFace) -> None:
        require_open_memory(memory)
        self._memory = memory

    @override
    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Store a new session. Raises AlreadyExistsError if the id is in use."""
        scope = self._scope(user_id, "create_session")
        name = (session_id or "").strip() or uuid4().hex
        head_name = _head_name(app_name, name)
        records = records_of(self._memory, scope=scope)
        deltas = _state_deltas(state or {})
        now = platform_time.get_time()
        head: dict[str, Any] = {"id": name, "state": deltas[""], "last_update_time": now}
        stored = await records.get(*head_name)
        if _is_live(stored):
            raise AlreadyExistsError(f"Session with id {name} already exists.")
        if stored is not None:  # a deletion that was interrupted
            await self._erase_session(scope, app_name, name)
        await self._change_state(self._app_records(scope), _app_name(app_name), deltas[State.APP_PREFIX])
        await self._change_state(records, _user_name(app_name), deltas[State.USER_PREFIX])
        try:
            await records.put(*head_name, head, expected_version=0)
        except PreconditionFailed:
            raise AlreadyExistsError(f"Session with id {name} already exists.") from None
        return await self._session(scope, app_name, user_id, head, ())

    @override
    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return a session with the events that `config` selects, or None if it does not exist."""
        scope = self._scope(user_id, "get_session")
        head = await records_of(self._memory, scope=scope).get(*_head_name(app_name, session_id.strip()))
        if not _is_live(head):
            return None
        items = await ConversationItems(
            self._memory, session_scope(scope, app_name, session_id.strip()), issuer=ISSUER
        ).read()
        events = [Event.model_validate(item.value) for item in items]
        return await self._session(scope, app_name, user_id, head.value, _chosen_events(events, config))

    @override
    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return a user's sessions without events, latest last. Raises ScopeMissing without a user."""
        scope = self._scope(user_id, "list_sessions")
        namespace, _ = _head_name(app_name, "")
        heads = [head.value async for head in records_of(self._memory, scope=scope).below(namespace) if _is_live(head)]
        sessions = [await self._session(scope, app_name, scope.space, head, ()) for head in heads]
        return ListSessionsResponse(sessions=sorted(sessions, key=lambda each: (each.last_update_time, each.id)))

    @override
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Erase a session, its events, and what memory derived from them."""
        scope = self._scope(user_id, "delete_session")
        await self._erase_session(scope, app_name, session_id.strip())

    @override
    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return a user's state across all sessions of an app, without prefixes."""
        scope = self._scope(user_id, "get_user_state")
        return _state_of(await records_of(self._memory, scope=scope).get(*_user_name(app_name)))

    @override
    async def append_event(self, session: Session, event: Event) -> Event:
        """Store an event and its state changes, once by its id. Partial events are not stored.

        Raises SessionNotFoundError.
        """
        if event.partial:
            return event
        scope = self._scope(session.user_id, "append_event")
        head_name = _head_name(session.app_name, session.id)
        if not _is_live(await records_of(self._memory, scope=scope).get(*head_name)):
            raise SessionNotFoundError(f"Session {session.id} not found.")
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        await self._store_event(scope, session.app_name, session.id, event)
        self._commit_event_to_session(session, event)
        session.last_update_time = event.timestamp
        return event

    async def _store_event(self, scope: Scope, app_name: str, session_id: str, event: Event) -> None:
        conversation = session_scope(scope, app_name, session_id)
        turn = ConversationItems(self._memory, conversation, issuer=ISSUER).item_turn(event_item(event))
        deltas = _state_deltas(event.actions.state_delta)
        await self._change_state(self._app_records(scope), _app_name(app_name), deltas[State.APP_PREFIX])
        records = records_of(self._memory, scope=scope)
        names = [_head_name(app_name, session_id), _user_name(app_name)]
        request = MemoryFinalizeTurnRequest(scope=conversation, delta=turn.delta, extraction=ExtractionMethod.OFF)
        await settle_change(lambda: self._commit_event(records, names, request, deltas, event, turn=turn))

    async def _commit_event(
        self,
        records: RuntimeRecords,
        names: Sequence[RecordName],
        request: MemoryFinalizeTurnRequest,
        deltas: Mapping[str, Mapping[str, Any]],
        event: Event,
        *,
        turn: ItemTurn,
    ) -> None:
        head, user = await records.get_all(names)
        if not _is_live(head):
            raise SessionNotFoundError("The session was deleted.")
        value: Any = head.value
        new_head = {**value, "state": {**value["state"], **deltas[""]}, "last_update_time": event.timestamp}
        drafts = [RecordDraft(*names[0], new_head, expected_version=head.version)]
        if deltas[State.USER_PREFIX]:
            user_state: Any = {**_state_of(user), **deltas[State.USER_PREFIX]}
            version = user.version if user is not None else 0
            drafts.append(RecordDraft(*names[1], user_state, expected_version=version))
        await records.finalize_turn(
            request,
            [*names, *turn.piece_names],
            lambda turn_id, message_ids: [*drafts, *turn.pieces_of(turn_id, message_ids)],
        )

    async def _erase_session(self, scope: Scope, app_name: str, session_id: str) -> None:
        records = records_of(self._memory, scope=scope)
        name = _head_name(app_name, session_id)

        async def mark() -> None:
            head = await records.get(*name)
            if _is_live(head):
                await records.put(*name, _DELETED, expected_version=head.version)

        # Marked first, so that an event that is being appended conflicts. Events without a head are erased too.
        await settle_change(mark)
        await ConversationItems(self._memory, session_scope(scope, app_name, session_id), issuer=ISSUER).erase()
        head = await records.get(*name)
        if head is not None and not _is_live(head):
            await records.erase((head,))

    async def _change_state(self, records: RuntimeRecords, name: RecordName, delta: Mapping[str, Any]) -> None:
        """Merge `delta` into the state with this name."""

        async def put() -> None:
            record = await records.get(*name)
            state: Any = {**_state_of(record), **delta}
            await records.put(*name, state, expected_version=record.version if record is not None else 0)

        if delta:
            await settle_change(put)

    async def _session(self, scope: Scope, app_name: str, user_id: str, head: Any, events: Sequence[Event]) -> Session:
        app = _state_of(await self._app_records(scope).get(*_app_name(app_name)))
        user = _state_of(await records_of(self._memory, scope=scope).get(*_user_name(app_name)))
        state = {
            **head["state"],
            **{State.APP_PREFIX + key: value for key, value in app.items()},
            **{State.USER_PREFIX + key: value for key, value in user.items()},
        }
        return Session(
            id=head["id"],
            app_name=app_name,
            user_id=user_id,
            state=state,
            events=list(events),
            last_update_time=head["last_update_time"],
        )

    def _scope(self, user_id: str | None, operation: str) -> Scope:
        return caller_memory(self._memory, user_id, operation=operation).scope

    def _app_records(self, scope: Scope) -> RuntimeRecords:
        """Return the records for app state. If the memory was opened for one user, they are in that user's space."""
        own = self._memory.scope
        is_of_one = own is not None and own.space != DEFAULT_SPACE
        space = scope if is_of_one else narrowed_scope(None, space=APPS_SPACE)
        return records_of(self._memory, scope=space)


def _head_name(app_name: str, session_id: str) -> RecordName:
    return (NAMESPACE, host_name(app_name), "sessions"), host_name(session_id)


def _user_name(app_name: str) -> RecordName:
    return (NAMESPACE, host_name(app_name), "state"), "user"


def _app_name(app_name: str) -> RecordName:
    return (NAMESPACE, host_name(app_name), "state"), "app"


def _is_live(head: Record | None) -> TypeGuard[Record]:
    """Return whether a session exists and is not being deleted."""
    return head is not None and head.value != _DELETED


def _state_of(record: Record | None) -> dict[str, Any]:
    value: Any = record.value if record is not None else {}
    return dict(value)


def _state_deltas(state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return state changes as JSON, grouped by prefix; those of the session itself have an empty prefix."""
    values: dict[str, Any] = to_jsonable_python(dict(state), serialize_unknown=True)
    deltas: dict[str, dict[str, Any]] = {"": {}, **{prefix: {} for prefix in _PREFIXES}}
    for key, value in values.items():
        prefix = next((prefix for prefix in _PREFIXES if key.startswith(prefix)), "")
        deltas[prefix][key.removeprefix(prefix)] = value
    return deltas


def _chosen_events(events: list[Event], config: GetSessionConfig | None) -> list[Event]:
    if config is not None and config.num_recent_events is not None:
        events = events[len(events) - min(config.num_recent_events, len(events)) :]
    if config is not None and config.after_timestamp is not None:
        early = [place for place, event in enumerate(events) if event.timestamp < config.after_timestamp]
        events = events[early[-1] + 1 if early else 0 :]
    return events
