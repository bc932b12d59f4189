"""Addresses that a server calls for a caller: one module resolves hosts and judges their addresses."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gates.tree import ROOT, files

from elytron_core.errors import Unreachable
from elytron_outbound.addresses import is_public, number_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "number",
    ["127.0.0.1", "10.1.2.3", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "239.255.255.250", "240.0.0.1",
     "255.255.255.255", "192.88.99.1", "::", "::1", "::7f00:1", "::ffff:10.0.0.1", "::ffff:0:7f00:1",
     "64:ff9b::a00:1", "64:ff9b:1::1", "2002:a00:1::", "2001:0:7f00:1::", "2001:db8::1", "fc00::1", "fd00::1",
     "fe80::1%eth0", "fec0::1", "ff02::1", "ff0e::1"],
)  # fmt: skip
def test_no_address_outside_the_internet_is_public(number: str) -> None:
    assert not is_public(number)


@pytest.mark.parametrize(
    "number", ["93.184.215.14", "2606:2800:21f:cb07::1", "64:ff9b::5db8:d70e", "::ffff:93.184.215.14"]
)
def test_a_machine_on_the_internet_is_public(number: str) -> None:
    assert is_public(number)


@given(st.ip_addresses(v=4))
def test_all_spellings_of_an_address_are_judged_the_same(address: ipaddress.IPv4Address) -> None:
    translated = ipaddress.IPv6Address(int(ipaddress.IPv6Address("64:ff9b::")) + int(address))
    assert is_public(str(translated)) == is_public(f"::ffff:{address}") == is_public(str(address))
    assert not is_public(f"2002:{int(address) >> 16:x}:{int(address) & 0xFFFF:x}::1")


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example", ".", "\udc80"])
async def test_an_invalid_name_cannot_be_resolved(host: str) -> None:
    with pytest.raises(Unreachable):
        await number_of(host, 443)


def test_hosts_are_resolved_and_judged_in_one_module() -> None:
    own = {
        ROOT / "packages/outbound/elytron_outbound/addresses.py",
        # A client resolves the server name that its host configured; it calls no address of a caller.
        ROOT / "packages/sdk/elytron/remote/memory.py",
    }
    others = [
        path.relative_to(ROOT).as_posix()
        for path in files("packages", suffix=".py")
        if path not in own and any(word in path.read_text() for word in ("getaddrinfo", ".is_global"))
    ]
    assert others == []
