"""Keys issued by services: each format is found, alone and within text, and shorter strings are preserved."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elytron_core.policy.redaction import BEGINNING, WITHIN, is_suspect, scrub_secrets

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
HEX = "0123456789abcdef" * 8
WORD = "Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv" * 5
KEYS = (
    f"gsk_{WORD[:52]}", f"xai-{WORD[:80]}", f"pplx-{WORD[:48]}", f"r8_{WORD[:37]}", f"nvapi-{WORD[:64]}",
    f"tvly-dev-{WORD[:32]}", f"pcsk_{WORD[:6]}_{WORD[:63]}", f"lsv2_pt_{HEX[:32]}_{HEX[:10]}", f"sk_{HEX[:48]}",
    f"jina_{HEX[:32]}{WORD[:28]}", f"fc-{HEX[:32]}", f"apify_api_{WORD[:36]}", f"ABSK{WORD[:128]}==",
    f"GOCSPX-{WORD[:28]}", f"ya29.{WORD[:120]}", f"1//0{WORD[:60]}", f"dop_v1_{HEX[:64]}", f"doo_v1_{HEX[:64]}",
    f"dapi{HEX[:32]}-2", f"hvs.{WORD[:90]}", f"hvb.{WORD[:90]}", f"pscale_tkn_{WORD[:43]}", f"sbp_{HEX[:40]}",
    f"sb_secret_{WORD[:31]}", f"nfp_{WORD[:36]}", f"HRKU-{HEX[:36]}", f"fo1_{WORD[:43]}", f"FlyV1 fm2_{WORD[:150]}",
    f"rnd_{WORD[:28]}", f"tskey-auth-{WORD[:12]}-{WORD[:32]}", f"AGE-SECRET-KEY-1{WORD[:58].upper()}",
    f"gldt-{WORD[:20]}", f"glrt-{WORD[:20]}", f"glptt-{HEX[:40]}", f"glcbt-{WORD[:24]}", f"gloas-{HEX[:64]}",
    f"ATATT3{WORD[:120]}=", f"ATCTT3{WORD[:120]}=", f"dckr_pat_{WORD[:27]}", f"dckr_oat_{WORD[:32]}",
    f"rubygems_{HEX[:48]}", f"CCIPAT_{WORD[:22]}_{HEX[:40]}", f"pul-{HEX[:40]}", f"dp.pt.{WORD[:43]}",
    f"dp.st.dev.{WORD[:43]}", f"lin_api_{WORD[:40]}", f"ntn_{HEX[:9]}10{WORD[:35]}", f"secret_{WORD[:43]}",
    f"figd_{WORD[:43]}", f"PMAK-{HEX[:24]}-{HEX[:34]}", f"CFPAT-{WORD[:43]}", f"glsa_{WORD[:32]}_{HEX[:8]}",
    f"glc_eyJ{WORD[:100]}==", f"sntrys_{WORD[:90]}", f"sntryu_{HEX[:64]}", f"NRAK-{WORD[:27].upper()}",
    f"phx_{WORD[:43]}", f"whsec_{WORD[:32]}", f"shpat_{HEX[:32]}", f"shpss_{HEX[:32]}", f"shpca_{HEX[:32]}",
    f"sq0atp-{WORD[:22]}", f"SG.{WORD[:22]}.{WORD[:43]}", f"re_{WORD[:8]}_{WORD[:24]}", f"key-{HEX[:32]}",
    f"xapp-1-A0123456789-1234567890123-{HEX[:64]}",
)  # fmt: skip
PLACED = (
    (f"{WORD[:14]}.atlasv1.{WORD[:67]}", "[redacted:api_key]"),
    (f"bot 123456789:AA{WORD[:33]}", "bot [redacted:api_key]"),
    (
        f"https://hooks.slack.com/services/T0123/B0123/{WORD[:24]}",
        "https://hooks.slack.com/services/[redacted:api_key]",
    ),
    (
        f"https://discord.com/api/webhooks/123456789012345678/{WORD[:68]}",
        "https://discord.com/api/webhooks/123456789012345678/[redacted:api_key]",
    ),
    (f"AccountName=x;AccountKey={WORD[:86]}==;E", "AccountName=x;AccountKey=[redacted:api_key];E"),
    (f"SharedAccessKey={WORD[:43]}=;x", "SharedAccessKey=[redacted:api_key];x"),
    (f"https://x.example/a?sv=1&sig={WORD[:44]}%3D", "https://x.example/a?sv=1&sig=[redacted:api_key]"),
)


def test_every_secret_format_has_an_example() -> None:
    for hint in BEGINNING:
        assert any(key.lower().startswith(hint) for key in KEYS), hint
    for hint in WITHIN:
        assert any(hint in text.lower() for text, _ in PLACED), hint


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key[:14])
def test_an_issued_key_is_redacted_anywhere(key: str) -> None:
    for text, told in (
        (key, "[redacted:api_key]"),
        (f"It is {key}, keep it.", "It is [redacted:api_key], keep it."),
        (f"密钥：{key}。", "密钥：[redacted:api_key]。"),
        (f"({key})\n", "([redacted:api_key])\n"),
    ):
        found = scrub_secrets(text)
        assert (found.text, dict(found.counts)) == (told, {"api_key": 1})
        assert is_suspect(text)
        assert scrub_secrets(found.text).counts == {}
    hidden = scrub_secrets("It is " + "\u200b".join(key))
    assert (hidden.text, dict(hidden.counts)) == ("It is [redacted:api_key]", {"api_key": 1})
    assert is_suspect("\u200b".join(key))


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key[:14])
def test_truncated_keys_and_parts_of_words_are_preserved(key: str) -> None:
    assert "api_key" not in scrub_secrets(key[:16]).counts
    assert "api_key" not in scrub_secrets(f"x{key[:16]}").counts


@pytest.mark.parametrize(("text", "told"), PLACED, ids=lambda text: text[:20])
def test_a_key_in_an_address_or_a_setting_is_redacted(text: str, told: str) -> None:
    assert scrub_secrets(text).text == told


HINTS = st.sampled_from((*BEGINNING, *WITHIN)) | st.text(ALPHABET + "_-. :/=", max_size=12)


@settings(max_examples=40)
@given(st.lists(HINTS, max_size=8).map("".join))
def test_a_second_scan_finds_nothing_more(text: str) -> None:
    found = scrub_secrets(text)
    assert scrub_secrets(found.text).counts == {}
    assert found.counts or found.text == text
