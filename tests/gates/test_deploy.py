"""The files in deploy/ are valid, and every command in them exists."""

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from tests.gates.tree import ROOT

from elytron_cli.app import elytron_group
from elytron_cli.config import SECRETS
from elytron_core import limits
from elytron_http_shell.application import WATCHED
from elytron_http_shell.server import LOOPBACK
from elytron_store.postgres.address import parse_address

DEPLOY = ROOT / "deploy"
INSTRUCTIONS = {
    "ARG",
    "FROM",
    "COPY",
    "RUN",
    "USER",
    "WORKDIR",
    "ENV",
    "VOLUME",
    "EXPOSE",
    "HEALTHCHECK",
    "STOPSIGNAL",
    "ENTRYPOINT",
    "CMD",
}


def unit() -> ConfigParser:
    """Return the unit; a repeated name keeps its last value."""
    found = ConfigParser(strict=False, interpolation=None)
    found.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    found.read(DEPLOY / "elytron.service")
    return found


def container() -> list[tuple[str, str]]:
    """Return the instructions of the container file."""
    text = re.sub(r"\\\n", " ", (DEPLOY / "Containerfile").read_text())
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def runs() -> list[str]:
    """Return what the container file runs during the build."""
    return [rest for name, rest in container() if name == "RUN"]


def commands() -> list[list[str]]:
    """Return each command line of deploy/, without the program."""
    (started,) = [rest for name, rest in container() if name == "CMD"]
    nodes = read_yaml("compose.nodes.yaml")["services"]["node"]["command"]
    return [shlex.split(unit()["Service"]["ExecStart"])[1:], json.loads(started), nodes, pod()["containers"][0]["args"]]


def read_yaml(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text())


def rendered(template: str) -> Any:
    """Return a chart template with the chart's own values; templates contain only placeholders."""
    values = read_yaml("helm/values.yaml")

    def value_of(place: re.Match[str]) -> str:
        if place[1] == ".Release.Name":
            return "memory"
        found = values
        for name in place[1].removeprefix(".Values.").split("."):
            found = found[name]
        return str(found)

    text = re.sub(r"\{\{ (\S+) \}\}", value_of, (DEPLOY / "helm/templates" / template).read_text())
    assert "{{" not in text
    return yaml.safe_load(text)


def pod() -> Any:
    """Return the pod of the chart's nodes."""
    return rendered("deployment.yaml")["spec"]["template"]["spec"]


@pytest.mark.parametrize("command", commands(), ids=["unit", "container", "nodes", "chart"])
def test_every_command_exists(command: list[str]) -> None:
    with click.Context(elytron_group) as root:
        _, found, rest = elytron_group.resolve_command(root, command)
        assert found is not None
        context = found.make_context(command[0], rest, parent=root)
        assert context.params["port"] == 8010


def test_the_unit_is_valid_and_sandboxes_its_process(tmp_path: Path) -> None:
    service = unit()["Service"]
    hardened = ("NoNewPrivileges", "PrivateTmp", "ProtectHome")
    assert {name: service[name] for name in hardened} == dict.fromkeys(hardened, "yes")
    assert int(service["TimeoutStopSec"]) > 30
    if (program := shutil.which("systemd-analyze")) is None:
        return
    # Its program is not installed here, and does not have to be.
    text = re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", (DEPLOY / "elytron.service").read_text())
    copy = tmp_path / "elytron.service"
    copy.write_text(text)
    done = subprocess.run([program, "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False)
    assert "elytron.service" not in done.stderr


def test_the_container_runs_without_root_and_with_its_checks() -> None:
    names = [name for name, _ in container()]
    assert set(names) <= INSTRUCTIONS
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert {"HEALTHCHECK", "VOLUME", "STOPSIGNAL"} <= set(names)


def test_the_container_uses_a_pinned_base_image_and_hashed_packages() -> None:
    assert [rest.partition(" ")[0] for name, rest in container() if name == "FROM"] == ["${BASE}"] * 2
    (base,) = [rest for name, rest in container() if name == "ARG"]
    workflow = (ROOT / ".github/workflows/release.yml").read_text()
    assert f"inspect {base.removeprefix('BASE=')} " in workflow
    assert "build-args: BASE=${{ steps.base.outputs.image }}" in workflow
    installs = [part for rest in runs() for part in rest.split("&&") if part.strip().startswith("pip ")]
    assert [part for part in installs if "--require-hashes" not in part and "--no-index" not in part] == []
    for named in re.findall(r"--requirement /(requirements/\S+)", " ".join(installs)):
        locked = (ROOT / named).read_text().replace("\\\n", "").splitlines()
        assert [line for line in locked if "==" in line and "--hash=sha256:" not in line] == []


def test_the_compose_file_builds_the_container_and_persists_its_store() -> None:
    composition: Any = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    (service,) = composition["services"].values()
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).samefile(DEPLOY / "Containerfile")
    (volume,) = [rest for name, rest in container() if name == "VOLUME"]
    assert [mount.split(":")[1] for mount in service["volumes"]] == [volume]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_the_reverse_proxy_targets_the_served_port() -> None:
    text = (DEPLOY / "Caddyfile").read_text()
    assert text.count("{") == text.count("}")
    assert "reverse_proxy 127.0.0.1:8010" in text
    assert "flush_interval -1" in text


def test_the_nodes_get_external_secrets_and_are_not_exposed() -> None:
    services = read_yaml("compose.nodes.yaml")["services"]
    node, database = services["node"], services["database"]
    assert (DEPLOY / node["build"]["context"] / node["build"]["dockerfile"]).samefile(DEPLOY / "Containerfile")
    secrets = [node["environment"]["PGPASSWORD"], node["environment"]["ELYTRON_KEYS"]]
    secrets.append(database["environment"]["POSTGRES_PASSWORD"])
    assert all(re.fullmatch(r"\$\{ELYTRON_[A-Z_]+:\?\}", secret) for secret in secrets)
    address = parse_address(node["environment"]["ELYTRON_STORE"])
    assert (address.place, address.sealed) == ("database:5432/elytron", True)
    assert node["read_only"]
    assert [port for service in services.values() for port in service.get("ports", [])] == ["127.0.0.1:8010:8010"]
    balancer = read_yaml("compose.nodes.yaml")["configs"]["balancer"]["content"]
    assert balancer.count("{") == balancer.count("}")
    assert "health_uri /readyz" in balancer
    assert f"header_up Host {node['command'][-1]}" in balancer


def test_the_chart_probes_existing_routes_and_contains_no_secrets() -> None:
    (container,) = pod()["containers"]
    probes = [container[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe")]
    assert {probe["path"] for probe in probes} == {"/livez", "/readyz"} <= WATCHED
    assert {probe["httpHeaders"][0]["value"] for probe in probes} <= LOOPBACK
    environment = {one["name"]: one for one in container["env"]}
    assert parse_address(environment["ELYTRON_STORE"]["value"]).sealed
    assert all("secretKeyRef" in environment[name]["valueFrom"] for name in ("PGPASSWORD", "ELYTRON_KEYS"))
    assert environment["POD_IP"]["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert container["args"][container["args"].index("--node-url") + 1] == "http://$(POD_IP):8010"
    assert "ELYTRON_KEYS" in [f"ELYTRON_{name.upper()}" for name in SECRETS]


def test_the_chart_runs_without_root_and_keeps_a_node_during_drains() -> None:
    found = pod()
    own = found["containers"][0]["securityContext"]
    (made,) = re.findall(r"useradd .*--uid (\d+)", (DEPLOY / "Containerfile").read_text())
    assert (found["securityContext"]["runAsNonRoot"], found["securityContext"]["runAsUser"]) == (True, int(made))
    assert (own["readOnlyRootFilesystem"], own["allowPrivilegeEscalation"]) == (True, False)
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert found["terminationGracePeriodSeconds"] > limits.SHUTDOWN_S
    labels = rendered("deployment.yaml")["spec"]["template"]["metadata"]["labels"]
    assert rendered("service.yaml")["spec"]["selector"] == labels
    budget = rendered("disruption.yaml")["spec"]
    assert budget["selector"]["matchLabels"] == labels
    assert budget["minAvailable"] < rendered("deployment.yaml")["spec"]["replicas"]
    port = found["containers"][0]["ports"][0]
    assert rendered("service.yaml")["spec"]["ports"][0]["targetPort"] == port["name"]
    assert read_yaml("helm/Chart.yaml")["apiVersion"] == "v2"


def test_every_documented_server_uses_the_extra_that_covers_the_pages() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras: dict[str, list[str]] = tomllib.load(file)["project"]["optional-dependencies"]
    assert extras["team"] == ["elytron[server,mcp,client,agent,postgres]"]
    assert 'install --no-cache-dir --no-index --find-links /wheels "elytron[team]"' in runs()[-1]
    assert "pip install '.[team]'" in (ROOT / "docs/how-to/operate-a-server.md").read_text()


def test_no_container_prints_a_key_and_each_accepts_its_public_host_names() -> None:
    for command in commands()[1:]:
        assert "--operator-key" not in command
        assert command[command.index("--operator-key-file") + 1].startswith("/var/lib/elytron/")
    environment = read_yaml("compose.yaml")["services"]["elytron"]["environment"]
    (name,) = re.findall(r"^(\S+) \{$", (DEPLOY / "Caddyfile").read_text(), re.MULTILINE)
    assert name in environment["ELYTRON_ALLOW_HOST"]


def test_the_unit_allows_enough_file_descriptors() -> None:
    assert int(unit()["Service"]["LimitNOFILE"]) >= 65_536
