"""Console routes for operators: server state, spending, transports, devices, models and smoke checks."""

from typing import Final

from elytron_adapter.access_keys import AccessAddRequest, AccessKeyRequest, AccessListRequest
from elytron_adapter.surface import Route, SurfaceAccess
from elytron_console import spending_reports
from elytron_console.console_host import ModelConfig, ModelConfigChange, models_in_use
from elytron_console.devices import (
    DeviceChange,
    DeviceDraft,
    DeviceIssued,
    DeviceList,
    DeviceReport,
    change_device,
    device_report,
    issued_device,
)
from elytron_console.overview import OverviewReport, SpaceReport, server_overview
from elytron_console.routes.console_calls import ConsoleCall, ConsoleRoute
from elytron_console.sessions import ROOT
from elytron_console.smoke_checks import SmokeCheckReport
from elytron_console.transports import (
    LlmGatewayReport,
    TransportChange,
    TransportList,
    TransportReport,
    change_transport,
    gateway_report,
    transport_reports,
)
from elytron_core.errors import ScopeMissing, Unsupported
from elytron_core.model import Value

RECENT_EVENTS: Final = 12


async def _show_spending(call: ConsoleCall) -> Value:
    return await spending_reports.space_spending(call.console.context, call.console.admission.figures, call.space())


async def _list_spending(call: ConsoleCall) -> Value:
    return await spending_reports.store_spending(call.console.context)


async def _show_overview(call: ConsoleCall) -> Value:
    console = call.console
    return await server_overview(console.admission, console.host, call.principal, await _space_report(call))


async def _space_report(call: ConsoleCall) -> SpaceReport | None:
    """Return today's figures of the requested space; None if none is requested, and there is no default."""
    try:
        space = call.space()
    except ScopeMissing:
        return None
    journal_reader = call.console.journal
    page = await journal_reader.page(space, before=None, limit=RECENT_EVENTS)
    todays_figures = await journal_reader.today(space, call.console.context.clock.now())
    return SpaceReport(space=space, today=todays_figures, recent=page.items)


async def _list_transports(call: ConsoleCall) -> Value:
    return TransportList(items=transport_reports(call.console.admission))


async def _switch_transport(call: ConsoleCall) -> Value:
    return await change_transport(call.console.admission, call.part("id"), await call.body(TransportChange))


async def _show_models(call: ConsoleCall) -> Value:
    models = call.console.host.models
    return models.read() if models is not None else models_in_use(call.console.context.models)


async def _change_models(call: ConsoleCall) -> Value:
    change, models = await call.body(ModelConfigChange), call.console.host.models
    if models is None:
        raise Unsupported("the program that serves this console does not allow changing its models")
    models.change(change)
    return models.read()


async def _show_gateway(call: ConsoleCall) -> Value:
    return gateway_report(call.console.admission, call.console.host, call.console.smoke_checks)


async def _run_check(call: ConsoleCall) -> Value:
    return await call.console.smoke_checks.run(call.part("id"))


async def _list_devices(call: ConsoleCall) -> Value:
    page = await call.console.keys.list(AccessListRequest(cursor=call.request.query_params.get("cursor")))
    return DeviceList(items=tuple(map(device_report, page.items)), next_cursor=page.next_cursor)


async def _add_device(call: ConsoleCall) -> Value:
    draft = await call.body(DeviceDraft)
    key_request = AccessAddRequest(kind=draft.kind, space=draft.space, label=draft.label)
    return issued_device(await call.console.keys.add(key_request))


async def _update_device(call: ConsoleCall) -> Value:
    return await change_device(call.console.keys, call.part("id"), await call.body(DeviceChange))


async def _rotate_device(call: ConsoleCall) -> Value:
    return issued_device(await call.console.keys.rotate(AccessKeyRequest(id=call.part("id"))))


async def _revoke_device(call: ConsoleCall) -> Value:
    return device_report(await call.console.keys.revoke(AccessKeyRequest(id=call.part("id"))))


_OPERATOR: Final = SurfaceAccess.OPERATOR
_DEVICE: Final = f"{ROOT}/devices/{{id}}"
OPERATOR_ROUTES: Final[tuple[ConsoleRoute, ...]] = (
    Route("GET", f"{ROOT}/spending", _show_spending, "console_spending",
          "Report maintenance's model usage by day, and its budget.", None, spending_reports.SpendingReport,
          query=("space",)),
    Route("GET", f"{ROOT}/spending/spaces", _list_spending, "console_spending_by_space",
          "List the spaces with the highest model usage.", None, spending_reports.StoreSpending, _OPERATOR),
    Route("GET", f"{ROOT}/overview", _show_overview, "console_overview", "Report the server's metrics.", None,
          OverviewReport, _OPERATOR, query=("space",)),
    Route("GET", f"{ROOT}/transports", _list_transports, "console_transports", "List the transports.", None,
          TransportList, _OPERATOR),
    Route("PATCH", f"{ROOT}/transports/{{id}}", _switch_transport, "console_switch_transport",
          "Enable or disable a transport, or set its endpoint.", TransportChange, TransportReport, _OPERATOR),
    Route("GET", f"{ROOT}/model-config", _show_models, "console_models", "Show the models and their settings.", None,
          ModelConfig, _OPERATOR),
    Route("PATCH", f"{ROOT}/model-config", _change_models, "console_change_models",
          "Set the models for the next start.", ModelConfigChange, ModelConfig, _OPERATOR),
    Route("GET", f"{ROOT}/llm-gateway", _show_gateway, "console_llm_gateway", "List the endpoints for model clients.",
          None, LlmGatewayReport, _OPERATOR),
    Route("POST", f"{ROOT}/llm-gateway/smoke-checks/{{id}}/run", _run_check, "console_smoke_check",
          "Run a fixed smoke check.", None, SmokeCheckReport, _OPERATOR),
    Route("GET", f"{ROOT}/devices", _list_devices, "console_devices", "List keys by fingerprint.", None, DeviceList,
          _OPERATOR, query=("cursor",)),
    Route("POST", f"{ROOT}/devices", _add_device, "console_add_device", "Create a key, shown only once.", DeviceDraft,
          DeviceIssued, _OPERATOR),
    Route("PATCH", _DEVICE, _update_device, "console_change_device", "Update a key's label or state.", DeviceChange,
          DeviceReport, _OPERATOR),
    Route("POST", f"{_DEVICE}/rotate-key", _rotate_device, "console_rotate_device",
          "Rotate a key's secret, shown only once.", None, DeviceIssued, _OPERATOR),
    Route("DELETE", _DEVICE, _revoke_device, "console_revoke_device", "Revoke a key.", None, DeviceReport, _OPERATOR),
)  # fmt: skip
