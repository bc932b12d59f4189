"""A store's manifest must match its opener's request."""

import json

import pytest

from elytron_core.clock import Instant
from elytron_core.errors import StoreForeign, StoreNewer
from elytron_store.manifest import DEFAULT_PROFILE, SCHEMA_VERSION, StoreManifest, read_manifest, require_match

AT = Instant(1_767_225_600_000)
KEPT = StoreManifest(engine="sqlite", created_at=AT, opened_at=AT)


def test_a_manifest_round_trips() -> None:
    assert read_manifest(KEPT.to_bytes()) == KEPT
    assert (KEPT.profile, KEPT.sealed, KEPT.schema_version) == (DEFAULT_PROFILE, False, SCHEMA_VERSION)


def test_equal_manifests_give_equal_bytes() -> None:
    assert StoreManifest.model_validate_json(KEPT.to_bytes()).to_bytes() == KEPT.to_bytes()


@pytest.mark.parametrize("data", [b"", b"{", b"{}", b'{"schema_name":"other.store"}', b"\xff"])
def test_anything_else_is_foreign(data: bytes) -> None:
    with pytest.raises(StoreForeign):
        read_manifest(data)


def test_an_unknown_field_is_foreign() -> None:
    with pytest.raises(StoreForeign):
        read_manifest(json.dumps({**json.loads(KEPT.to_bytes()), "extra": 1}).encode())


@pytest.mark.parametrize("version", [0, -1, "1", True, 1.5])
def test_a_schema_that_never_existed_is_foreign(version: object) -> None:
    with pytest.raises(StoreForeign):
        read_manifest(json.dumps({**json.loads(KEPT.to_bytes()), "schema_version": version}).encode())


@pytest.mark.parametrize("field", StoreManifest.model_fields)
def test_a_manifest_that_lacks_any_field_is_foreign(field: str) -> None:
    told = json.loads(KEPT.to_bytes())
    del told[field]
    with pytest.raises(StoreForeign):
        read_manifest(json.dumps(told).encode())


def test_a_newer_schema_is_distinguished_from_a_foreign_one() -> None:
    newer = {"schema_name": "elytron.store", "schema_version": SCHEMA_VERSION + 1, "engine": {"kind": "sqlite"}}
    with pytest.raises(StoreNewer):
        read_manifest(json.dumps(newer).encode())


def test_a_newer_schema_is_refused_with_both_versions() -> None:
    newer = KEPT.model_copy(update={"schema_version": SCHEMA_VERSION + 1})
    with pytest.raises(StoreNewer) as refused:
        read_manifest(newer.to_bytes())
    assert refused.value.details() == {"found": SCHEMA_VERSION + 1}


def test_a_match_is_silent() -> None:
    require_match(KEPT, engine="sqlite", profile=None, sealed=False)
    require_match(KEPT, engine="sqlite", profile=DEFAULT_PROFILE, sealed=False)
    require_match(KEPT.model_copy(update={"sealed": True}), engine="sqlite", profile=None, sealed=True)


@pytest.mark.parametrize(
    ("kept", "engine", "profile", "sealed"),
    [
        (KEPT.model_copy(update={"memory_system": "other.memory"}), "sqlite", None, False),
        (KEPT, "file", None, False),
        (KEPT, "sqlite", "embedded", False),
        (KEPT.model_copy(update={"sealed": True}), "sqlite", None, False),
        (KEPT, "sqlite", None, True),
    ],
    ids=["system", "engine", "profile", "sealed without key", "key without seal"],
)
def test_a_mismatch_is_foreign_and_names_the_remedy(
    kept: StoreManifest, engine: str, profile: str | None, *, sealed: bool
) -> None:
    with pytest.raises(StoreForeign, match=r"open it|belongs to"):
        require_match(kept, engine=engine, profile=profile, sealed=sealed)
