"""The meaning of a Postgres store's URL, and that nothing of it is shown."""

import pytest

from elytron_core.errors import StoreUrlInvalid
from elytron_store.postgres.address import POSTGRES_CONNECTIONS, PostgresAddress, parse_address
from elytron_store.store_urls import parse_url

SECRET = "postgresql://ada:tea-time@db.example:5432/memory?sslmode=require"


def test_a_url_names_server_database_and_the_drivers_options() -> None:
    assert parse_address(SECRET) == PostgresAddress(conninfo=SECRET, place="db.example:5432/memory")


def test_the_engines_own_options_do_not_reach_the_driver() -> None:
    url = "postgresql://db/memory?sealed=no&schema=ours&portable=yes&connections=4&application_name=a%20b"
    assert parse_address(url) == PostgresAddress(
        conninfo="postgresql://db/memory?application_name=a%20b",
        place="db/memory",
        schema="ours",
        sealed=False,
        portable=True,
        connections=4,
    )


def test_a_store_is_sealed_in_the_schema_elytron_unless_its_url_differs() -> None:
    address = parse_address("postgresql:///memory?host=/run/postgresql")
    assert (address.sealed, address.schema, address.place) == (True, "elytron", "/run/postgresql/memory")
    assert address.connections == POSTGRES_CONNECTIONS


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_both_schemes_select_the_engine(scheme: str) -> None:
    assert parse_url(f"{scheme}://db/memory").engine == "postgres"


def test_no_address_shows_its_password() -> None:
    assert "tea-time" not in repr(parse_address(SECRET))
    assert "tea-time" not in repr(parse_url(SECRET))


@pytest.mark.parametrize(
    "query",
    [
        *("sealed=maybe", "portable=1", "connections=0", "connections=1000", "connections=many"),
        *("schema=Ours", "schema=pg_catalog", "schema=a;b", "sealed=no&sealed=yes", "sealed"),
    ],
)
def test_an_invalid_option_is_rejected_without_showing_the_url(query: str) -> None:
    with pytest.raises(StoreUrlInvalid) as refused:
        parse_url(f"postgresql://ada:tea-time@db/memory?{query}")
    assert "tea-time" not in refused.value.message
