"""Prometheus metrics of the proxy: turns committed, truncated, lost, degraded, and refused; bytes; times."""

from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.models.fake_server import Sent
from tests.models.streams import RECORDED
from tests.proxy.proxy_setup import PATHS, Proxied, asked, proxying, recorded
from tests.transports.listener import listening

from elytron_adapter.access_keys import AccessAddRequest, AccessKeys
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_http_shell.application import WatchedApplication
from elytron_proxy.figures import ProxyFigures

pytestmark = pytest.mark.anyio
CUT = Sent((RECORDED["chat"].data[:200],))


def shown(text: str) -> dict[str, float]:
    """Return the proxy's metrics by name; histograms with their bounds."""
    return {
        sample.name.removeprefix("elytron_proxy_") + sample.labels.get("le", ""): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("elytron_proxy_")
    }


def watched(proxied: Proxied, **how: Any) -> WatchedApplication:
    admission = CallerAdmission(OperationDispatcher(proxied.memory), authenticator=AccessKeys(proxied.memory.context))
    return WatchedApplication(
        proxied.app, admission, hosts=frozenset({"127.0.0.1"}), figures=(proxied.app.figures.prometheus_figures,), **how
    )


def test_first_byte_times_are_counted_in_cumulative_buckets() -> None:
    figures = ProxyFigures()
    for seconds in (0.005, 0.3, 100.0):
        figures.first_byte_s.add(seconds)
    histogram = {figure.name: figure for figure in figures.prometheus_figures()}["elytron_proxy_first_byte_seconds"]
    assert histogram.value == pytest.approx(100.305)
    counts = dict(histogram.buckets)
    assert (counts["0.005"], counts["0.25"], counts["0.5"], counts["60"], counts["+Inf"]) == (1, 1, 2, 2, 3)


async def test_proxy_metrics_are_visible_only_to_operators() -> None:
    async with proxying(recorded("chat"), CUT, recorded("chat")) as proxied, listening(watched(proxied)) as url:
        keys = AccessKeys(proxied.memory.context)
        made = await keys.add(AccessAddRequest(kind=PrincipalKind.OPERATOR, label="test"))
        body = asked("chat", "Hello")
        async with httpx.AsyncClient(base_url=url, timeout=20) as client:
            whole = await client.post(PATHS["chat"], json=body)
            await client.post(PATHS["chat"], json=asked("chat", "Another"))
            assert (await client.post(PATHS["chat"], json=body, headers={"X-Elytron-Memory": "x"})).status_code == 400
            await proxied.app.idle()
            assert (await client.get("/metrics")).status_code == 401
            assert (await client.get("/metrics", headers={"Host": "evil.example"})).status_code == 403
            assert [(await client.get(path)).status_code for path in ("/livez", "/readyz")] == [200, 200]
            answer = await client.get("/metrics", headers={"Authorization": f"Bearer {made.key}"})
            assert len(proxied.upstream.asked) == 2
            await proxied.memory.close()
            await client.post(PATHS["chat"], json=asked("chat", "A third"))
        found = shown(answer.text)
        counted = [found[f"{name}_total"] for name in ("calls", "refused", "committed", "cut", "gone", "degraded")]
        assert counted == [3, 1, 1, 1, 0, 0]
        assert found["request_bytes_total"] > 2 * len(whole.request.content)
        assert found["answer_bytes_total"] >= len(whole.content)
        assert found["first_byte_seconds_bucket+Inf"] == found["first_byte_seconds_count"] == 2
        assert "store_ready 1.0" in answer.text
        assert proxied.app.figures.counts()["degraded"] == 1
