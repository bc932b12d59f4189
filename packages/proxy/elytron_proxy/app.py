"""The proxy's ASGI application, which serves all four dialects."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from elytron_adapter.access_keys import OPERATORS, DevelopmentCallers
from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.envelope import CallTransport, failure_of
from elytron_adapter.http.open_streams import StreamGuard, client_gone
from elytron_adapter.http.requests import (
    SAFE_METHODS,
    admit_connection,
    is_host_allowed,
    is_json,
    is_own_page,
    is_plain_path,
    raw_path,
)
from elytron_adapter.surface import Family, Route, Surface, SurfaceAccess, SurfaceProtocol, build_surfaces, own_app
from elytron_core.errors import ElytronError, PermissionRefused, RateLimited, Unauthorized
from elytron_models.dialect import Fields, fields_of, json_text, object_fields, text_field
from elytron_outbound.answers import read_beginning
from elytron_proxy import limits
from elytron_proxy.caller import ProxyCaller, caller_of
from elytron_proxy.conversation import ConversationFinder
from elytron_proxy.exchange import DOWN, ProxyExchange, ProxyParts
from elytron_proxy.figures import ProxyFigure, ProxyFigures
from elytron_proxy.memory import MemoryDown, ProxyMemory
from elytron_proxy.prompts import CHAT, DIALECTS, MESSAGES, OLLAMA, CallRefusal, PromptDialect
from elytron_proxy.prompts.prompt import items_of
from elytron_proxy.response_store import PATHS, ResponseStore, retrieval_of, retrieve_response
from elytron_proxy.settings import PASS_ROUTES, MemoryUse, ProxySettings, folded_path, route_of
from elytron_proxy.wire.relay import AnswerHeaders, AnswerPassage, ProxyCall
from elytron_proxy.wire.upstream import RefusedCall, UpstreamClients, unpack_body

REQUEST_BYTES: Final = 64 * 1024 * 1024
"""A request with its images."""
REQUEST_WAIT_S: Final = 60.0
"""Time limit for the arrival of a request's body."""
FINISH_S: Final = 600.0
"""Time for which an answer is read on after its client left, if asked for."""
LISTED_BYTES: Final = 4 * 1024 * 1024
"""An upstream's list of models."""


CAPABILITIES: Final = "/v1/bm/provider-capabilities"
LISTS: Final = {"/v1/models": "data", "/api/tags": "models"}
"""Lists of models, and the key of their items."""
_JSON: Final = "application/json"
_PATH: Final = "/llm"
_TRANSPORT: Final = CallTransport.LLM.value
"""Path of the APIs in a server that offers more."""
_LENGTH: Final = "content-length"
_NO_KEYS: Final = CallRefusal(503, "store_unavailable", "the store of access keys does not respond: try again later")
_ENCODING: Final = "content-encoding"
_PACKED: Final = CallRefusal(
    415, "unsupported_encoding", "the body does not match its Content-Encoding: send gzip, deflate or none"
)
_NOT_PASSED: Final = CallRefusal(
    404,
    "route_not_passed",
    "this method and path are not proxied: clients of OpenAI's API need a base URL that ends in /v1, and the operator "
    "may allow other routes with --pass",
)
_NO_RESPONSE: Final = CallRefusal(404, "not_found", "you have no stored response with this id")
_NO_JSON: Final = CallRefusal(
    415, "unsupported_media_type", "without keys, bodies must be JSON: send Content-Type: application/json"
)


class ProxyApp:
    """Relays model APIs for the callers of an entrance, with their memory. Its upstreams are closed by `running`."""

    def __init__(self, admission: CallerAdmission, settings: ProxySettings, /) -> None:
        memory = ProxyMemory(admission)
        self._admission = admission
        self._settings = settings
        self.figures = ProxyFigures()
        self._parts = ProxyParts(
            settings=settings,
            upstreams=UpstreamClients(settings),
            memory=memory,
            conversations=ConversationFinder(memory),
            responses=ResponseStore(memory, is_open=settings.stateful),
            figures=self.figures,
        )

    async def idle(self) -> None:
        """Wait until every answered call is committed."""
        await self._parts.memory.idle()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Close the upstreams' connections at the end."""
        try:
            yield
        finally:
            await self._parts.upstreams.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._http(scope, receive, _harmless_send(send))
            case "lifespan":
                await self._lifespan(receive, send)
            case _:
                await send({"type": "websocket.close", "code": 1008, "reason": "there is no model API here"})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        async with self.running():
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = folded_path(scope["method"], _path_of(scope), self._settings.passed)
        dialect = DIALECTS.get(path) if scope["method"] == "POST" else None
        error_shape = dialect or _shape_of(path)
        self.figures.count(ProxyFigure.CALLS)
        try:
            call, caller = await self._entered(scope, receive, path)
            await self._answered(call, caller, dialect, receive, send)
        except RefusedCall as refused_call:
            self.figures.count(ProxyFigure.REFUSED)
            await _send_refusal(error_shape, refused_call.refusal, send)
        except ElytronError as error:
            self.figures.count(ProxyFigure.REFUSED)
            await _send_refusal(error_shape, self._refusal_of(error, scope), send)

    async def _entered(self, scope: Scope, receive: Receive, path: str) -> tuple[ProxyCall, ProxyCaller]:
        """Return the request and its caller. Raises ElytronError, RefusedCall."""
        headers = Headers(scope=scope)
        _require_plain(path)
        self._require_host(scope, headers)
        self._require_passed(scope["method"], path)
        peer_address = scope["client"][0] if scope.get("client") else None
        state_id = scope.get("state", {}).get("request_id")
        request_id = state_id if isinstance(state_id, str) else self._parts.memory.new_id()
        # Keys are in the store, which may not answer.
        try:
            async with asyncio.timeout(limits.MEMORY_WAIT_S):
                caller = await caller_of(
                    self._admission, self._settings, headers, peer=peer_address, request_id=request_id
                )
        except TimeoutError:
            raise RefusedCall(_NO_KEYS) from None
        admit_connection(scope)
        body = await _read_body(headers, receive)
        self.figures.count(ProxyFigure.REQUEST_BYTES, len(body))
        query = scope["query_string"].decode("latin-1")
        return ProxyCall(scope["method"], path, query, headers.items(), body, caller.space), caller

    async def _answered(
        self, call: ProxyCall, caller: ProxyCaller, dialect: PromptDialect | None, receive: Receive, send: Send
    ) -> None:
        # Without memory nothing of the space is used or shown, so its lock does not matter.
        space = caller.space if caller.use is not MemoryUse.OFF else None
        guard = StreamGuard(
            self._admission, caller.principal, caller.current_credential, transport=_TRANSPORT, space=space
        )
        answer = BegunAnswer(send, guard)
        is_remembering = dialect is not None and space is not None
        caller = self._parts.memory.timed(caller, may_rest=is_remembering)
        # A store that does not answer in time is no reason to fail; the call continues without memory.
        with suppress(MemoryDown):
            if (end_reason := await self._parts.memory.in_time(caller, guard.ends)) is not None:
                raise end_reason
        if call.path == CAPABILITIES and call.method == "GET":
            await _send_answer(200, self._capabilities(), send)
        elif call.path in LISTS and call.method == "GET" and len(self._settings.upstreams) > 1:
            await _send_answer(200, await self._listed(call), send)
        elif dialect is None and (stored_response := await self._stored_response(call, caller)) is not None:
            await _send_answer(200, stored_response, send)
        elif self._is_foreign(call, caller):
            raise RefusedCall(_NO_RESPONSE)
        elif dialect is None:
            passage = AnswerPassage(self._parts.upstreams, self.figures, answer.send)
            await self._until_gone(receive, self._pass(passage, call), answer, leave=None)
        else:
            exchange = ProxyExchange(self._parts, dialect, caller, call, answer.send)
            try:
                leave_callback = exchange.leave if self._settings.finish else None
                await self._until_gone(receive, exchange.run(), answer, leave=leave_callback)
            finally:
                # The turn is stored even if the client left and this call is cancelled.
                if exchange.keeping is not None:
                    await asyncio.shield(exchange.keeping)

    async def _stored_response(self, call: ProxyCall, caller: ProxyCaller) -> Fields | None:
        """Return what is stored for the caller of the requested response; None if an upstream answers."""
        retrieval = retrieval_of(call) if caller.use is not MemoryUse.OFF else None
        if retrieval is None:
            return None
        try:
            return await retrieve_response(self._parts.memory, self._parts.responses, caller, call, retrieval)
        except MemoryDown:
            raise RefusedCall(DOWN) from None

    async def _pass(self, passage: AnswerPassage, call: ProxyCall) -> None:
        await passage.all(await passage.ask(call, model=_model_of(call)), AnswerHeaders(MemoryUse.OFF.value))

    async def _until_gone(
        self,
        receive: Receive,
        work: Coroutine[Any, Any, None],
        answer: "BegunAnswer",
        *,
        leave: Callable[[], None] | None,
    ) -> None:
        """Run `work`. If the client leaves, cancel it, so that the upstream is released; with `leave`, finish it.

        Once there is a reason to end the stream, no more of it is sent. Raises the reason if nothing was sent yet.
        """
        work_task = asyncio.ensure_future(work)
        disconnect_task = asyncio.ensure_future(client_gone(receive))
        refusal_task = asyncio.ensure_future(_stream_refusal(answer.guard))
        is_refused = False
        try:
            await asyncio.wait({work_task, disconnect_task, refusal_task}, return_when=asyncio.FIRST_COMPLETED)
            # An answer that ended at the same moment counts as ended.
            is_refused = refusal_task.done() and not work_task.done()
            if not work_task.done() and not is_refused:
                self.figures.count(ProxyFigure.GONE)
                if leave is None:
                    return
                leave()
                await asyncio.wait({work_task}, timeout=FINISH_S)
            if work_task.done():
                work_task.result()
        finally:
            for pending_task in (work_task, disconnect_task, refusal_task):
                pending_task.cancel()
            await asyncio.gather(work_task, disconnect_task, refusal_task, return_exceptions=True)
        if is_refused:
            await answer.cut()

    async def _listed(self, call: ProxyCall) -> Fields:
        """Return the models of all upstreams, each once, in order."""
        list_field = LISTS[call.path]
        models: dict[str, object] = {}
        for upstream in self._parts.upstreams.all:
            try:
                response = await self._parts.upstreams.send(
                    upstream, "GET", call.path, query="", headers=call.headers, space=call.space, body=None
                )
            # A server that is down does not hide the models of the others.
            except RefusedCall:
                continue
            listing = fields_of(await read_beginning(response, limit=LISTED_BYTES)) or {}
            for item in items_of(listing, list_field):
                models.setdefault(
                    text_field(object_fields(item), "id") or text_field(object_fields(item), "name"), item
                )
        return {**({"object": "list"} if list_field == "data" else {}), list_field: list(models.values())}

    def _capabilities(self) -> Fields:
        settings = self._settings
        return {
            "dialects": sorted({dialect.name for dialect in DIALECTS.values()}),
            "routes": [*DIALECTS, *(PATHS if settings.stateful else ()), *LISTS, CAPABILITIES],
            "memory": settings.memory.value,
            "placement": settings.placement.value,
            "stateful_responses": settings.stateful,
            "upstreams": len(settings.upstreams),
            "max_chars": settings.max_chars,
            "audit": settings.audit,
            "limits": {
                "request_bytes": REQUEST_BYTES,
                "relay_bytes": limits.RELAY_BYTES,
                "answer_chars": limits.ANSWER_CHARS,
                "timeout_s": settings.silence_s,
            },
            "counted": self.figures.counts(),
        }

    def _require_passed(self, method: str, path: str) -> None:
        """Raise RefusedCall for a request that is neither one of the proxy's own nor allowed to pass."""
        is_capabilities = path == CAPABILITIES and method == "GET"
        if not is_capabilities and route_of(method, path, (*PASS_ROUTES, *self._settings.passed)) is None:
            raise RefusedCall(_NOT_PASSED)

    def _is_foreign(self, call: ProxyCall, caller: ProxyCaller) -> bool:
        """Return whether a request names an object on the model server that another user may own."""
        route = route_of(call.method, call.path, (*PASS_ROUTES, *self._settings.passed))
        return route is not None and route.is_owned and caller.principal.kind not in OPERATORS

    def _require_host(self, scope: Scope, headers: Headers) -> None:
        """Raise PermissionRefused for a host or origin that is not ours, so that no web page reaches the memory.

        Without keys, a body must also be declared as JSON, which a page cannot send cross-origin without a preflight.
        """
        if isinstance(self._admission.authenticator, DevelopmentCallers):
            if not is_own_page(scope, headers):
                raise PermissionRefused("this server requires no key, so pages from other origins are refused")
            if scope["method"] not in SAFE_METHODS and not is_json(headers) and _has_body(headers):
                raise RefusedCall(_NO_JSON)
        hosts = self._settings.hosts
        if hosts is not None and not is_host_allowed(headers, hosts):
            raise PermissionRefused("this host or origin is not allowed: add it with --allow-host")

    def _refusal_of(self, error: ElytronError, scope: Scope) -> CallRefusal:
        if isinstance(error, Unauthorized) and self._settings.hosts is not None:
            client = scope.get("client")
            wait_s = self._admission.attempts.failed(client[0] if client else None)
            if wait_s is not None:
                error = RateLimited(limit=self._admission.attempts.most, retry_after_s=wait_s, what="wrong credentials")
        status = failure_of(error.key).status
        return CallRefusal(400 if status == 422 else status, error.key, error.message)


_HARMLESS: Final = (
    (b"content-security-policy", b"sandbox; default-src 'none'"),
    (b"x-content-type-options", b"nosniff"),
)
"""Headers of every answer: a model server's text must not act as a page of the origin that relays it."""


def _harmless_send(send: Send) -> Send:
    async def send_harmless(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *_HARMLESS]}
        await send(message)

    return send_harmless


def _path_of(scope: Scope) -> str:
    """Return the path below the proxy's own, as received."""
    return raw_path(scope).removeprefix(scope.get("root_path", "")) or "/"


def _require_plain(path: str) -> None:
    """Raise RefusedCall for a path that would leave an upstream's base, or that no header line may contain."""
    if not is_plain_path(path):
        raise RefusedCall(CallRefusal(400, "invalid_input", "the path has a dot segment or a control character"))


def _shape_of(path: str) -> PromptDialect:
    if path.startswith("/api/"):
        return OLLAMA
    return MESSAGES if path.startswith("/v1/messages") else CHAT


def _has_body(headers: Headers) -> bool:
    return headers.get(_LENGTH, "0") != "0" or "transfer-encoding" in headers


def _model_of(call: ProxyCall) -> str:
    """Return the model that a request names, if any."""
    if call.path.startswith("/v1/models/"):
        return unquote(call.path.removeprefix("/v1/models/"))
    body = fields_of(call.body) if call.body[:1] == b"{" else None
    return text_field(body or {}, "model") or text_field(body or {}, "name")


async def _read_body(headers: Headers, receive: Receive) -> bytes:
    """Return the body. Raises RefusedCall for one that is too large or too slow."""
    too_large = RefusedCall(CallRefusal(413, "payload_too_large", f"a request has at most {REQUEST_BYTES} bytes"))
    declared_length = headers.get(_LENGTH, "0")
    # `int` rejects very long numbers with an error of its own.
    if not declared_length.isdecimal() or len(declared_length) > 18 or int(declared_length) > REQUEST_BYTES:
        raise too_large
    body_buffer = bytearray()
    try:
        async with asyncio.timeout(REQUEST_WAIT_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RefusedCall(CallRefusal(400, "gone", "the client disconnected"))
                body_buffer += message.get("body", b"")
                if len(body_buffer) > REQUEST_BYTES:
                    raise too_large
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        raise RefusedCall(CallRefusal(408, "request_timeout", "the request body took too long to arrive")) from None
    if _ENCODING not in headers:
        return bytes(body_buffer)
    # Memory reads and changes the body, so it is forwarded unpacked.
    plain_body = await asyncio.to_thread(unpack_body, bytes(body_buffer), headers[_ENCODING], limit=REQUEST_BYTES)
    if plain_body is None:
        raise RefusedCall(_PACKED)
    if len(plain_body) > REQUEST_BYTES:
        raise too_large
    return plain_body


class BegunAnswer:
    """Sends an answer while its guard allows it, records whether it has begun, and cuts it."""

    def __init__(self, send: Send, guard: StreamGuard, /) -> None:
        self.guard = guard
        self._send = send
        self._is_begun = self._is_stalled = False

    async def send(self, message: Message) -> None:
        """Send a part; after the first one, check whether the stream must be cut."""
        if self._is_begun and not self._is_stalled and await self._must_end():
            await asyncio.Event().wait()
        self._is_begun = True
        await self._send(message)

    async def _must_end(self) -> bool:
        """Return whether there is a reason to end the stream; an unresponsive store delays no part of it."""
        try:
            async with asyncio.timeout(limits.MEMORY_WAIT_S):
                return await self.guard.ends() is not None
        except TimeoutError:
            self._is_stalled = True
            return False

    async def cut(self) -> None:
        """End what has begun, without the API's own end marker. Raises the reason if nothing was sent."""
        if not self._is_begun:
            raise self.guard.reason or Unauthorized
        with suppress(RuntimeError):  # of what was to have another length, the connection's end says that it was cut
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


async def _stream_refusal(guard: StreamGuard) -> None:
    """Wait for a reason to end the stream; a server that shuts down finishes accepted calls."""
    if await guard.ended() is None:
        await asyncio.Event().wait()


async def _send_refusal(shape: PromptDialect, refusal: CallRefusal, send: Send) -> None:
    await _send_answer(refusal.status, shape.refused(refusal), send)


async def _send_answer(status: int, document: Fields, send: Send) -> None:
    data = json_text(document).encode("utf-8", "replace")
    headers = [(b"content-type", _JSON.encode()), (b"content-length", str(len(data)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="elytron"'))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data})


def llm_surfaces(settings: ProxySettings, /) -> Family:
    """Return the surfaces of model APIs with memory; the proxy itself authenticates, and refuses in each API's own
    format."""

    def family(admission: CallerAdmission) -> Iterable[Surface]:
        app = ProxyApp(admission, settings)
        route = Route(
            "POST", _PATH, app, "llm", "Serve model APIs with memory.", access=SurfaceAccess.CREDENTIALS,
            is_repeatable=True, protocol=SurfaceProtocol.MOUNT,
        )  # fmt: skip
        return build_surfaces(
            (route,), own_app, transport=_TRANSPORT, running=app.running, figures=app.figures.prometheus_figures
        )

    return family
