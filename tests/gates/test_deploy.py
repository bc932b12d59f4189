"""Files of deploy/ are what their readers take, and every command in them is one of the command line."""

import json
import re
import shlex
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from tests.gates.tree import ROOT

from elytron_cli.app import elytron_group

DEPLOY = ROOT / "deploy"
INSTRUCTIONS = {
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
    """Return the unit; a name that comes twice keeps its last value."""
    found = ConfigParser(strict=False, interpolation=None)
    found.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    found.read(DEPLOY / "elytron.service")
    return found


def container() -> list[tuple[str, str]]:
    """Return the instructions of the container file."""
    text = re.sub(r"\\\n", " ", (DEPLOY / "Containerfile").read_text())
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def commands() -> list[list[str]]:
    """Return each command line of deploy/, without the program."""
    (started,) = [rest for name, rest in container() if name == "CMD"]
    return [shlex.split(unit()["Service"]["ExecStart"])[1:], json.loads(started)]


@pytest.mark.parametrize("command", commands(), ids=["unit", "container"])
def test_each_command_is_one_of_the_command_line(command: list[str]) -> None:
    with click.Context(elytron_group) as root:
        _, found, rest = elytron_group.resolve_command(root, command)
        assert found is not None
        context = found.make_context(command[0], rest, parent=root)
        assert context.params["port"] == 8010


def test_the_unit_is_sound_and_shuts_its_process_in(tmp_path: Path) -> None:
    service = unit()["Service"]
    hardened = ("NoNewPrivileges", "PrivateTmp", "ProtectHome")
    assert {name: service[name] for name in hardened} == dict.fromkeys(hardened, "yes")
    assert int(service["TimeoutStopSec"]) > 30
    if (program := shutil.which("systemd-analyze")) is None:
        return
    # Its program is not installed here, and need not be.
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


def test_the_composition_builds_the_container_and_keeps_its_store() -> None:
    composition: Any = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    (service,) = composition["services"].values()
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).samefile(DEPLOY / "Containerfile")
    (volume,) = [rest for name, rest in container() if name == "VOLUME"]
    assert [mount.split(":")[1] for mount in service["volumes"]] == [volume]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_the_proxy_is_before_the_port_that_is_served() -> None:
    text = (DEPLOY / "Caddyfile").read_text()
    assert text.count("{") == text.count("}")
    assert "reverse_proxy 127.0.0.1:8010" in text
    assert "flush_interval -1" in text
