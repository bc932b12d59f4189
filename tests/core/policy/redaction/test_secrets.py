"""Which secrets are found, and what is preserved."""

import json
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core.policy.redaction import ScrubbedText, scrub_secrets

HARBOUR = Path(__file__).parents[4] / "fixtures" / "conversations" / "harbour.jsonl"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7bq0\nqZl9-x+/==\n-----END RSA PRIVATE KEY-----"
CUT_PEM = "-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7bq0abcd\nMIIEpAIBAAKCAQEA7bq0efgh"
PGP = "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 1-2\n\nabcd\n-----END PGP PRIVATE KEY BLOCK-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
DIGITS36 = "abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.mark.parametrize(
    ("text", "scrubbed", "kind"),
    [
        ("key sk-proj-abcDEF1234567890abcdef, ok", "key [redacted:api_key], ok", "api_key"),
        ("sk-ant-api03-abcdefghijklmnop", "[redacted:api_key]", "api_key"),
        ("sk_live_abcdefgh12345678", "[redacted:api_key]", "api_key"),
        (f"AIza{DIGITS36[:35]}", "[redacted:api_key]", "api_key"),
        (f"npm_{DIGITS36}", "[redacted:api_key]", "api_key"),
        (f"hf_{DIGITS36}", "[redacted:api_key]", "api_key"),
        (f"(ghp_{DIGITS36})", "([redacted:github_token])", "github_token"),
        (f"github_pat_{DIGITS36}", "[redacted:github_token]", "github_token"),
        ("glpat-abcdefghij0123456789", "[redacted:gitlab_token]", "gitlab_token"),
        ("id AKIAIOSFODNN7EXAMPLE.", "id [redacted:aws_key].", "aws_key"),
        ("xoxb-123456789012-abcdef", "[redacted:slack_token]", "slack_token"),
        (f"see {JWT}", "see [redacted:jwt]", "jwt"),
        (f"a\n{PEM}\nb", "a\n[redacted:private_key]\nb", "private_key"),
        (json.dumps(PEM), '"[redacted:private_key]"', "private_key"),
        (CUT_PEM, "[redacted:private_key]", "private_key"),
        (PGP, "[redacted:private_key]", "private_key"),
        ("Bearer abcdefghijklmnop0123==", "Bearer [redacted:bearer]", "bearer"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted:basic_auth]", "basic_auth"),
        ("postgres://bob:s3cret@host/db", "postgres://bob:[redacted:password]@host/db", "password"),
        ("password=hunter2", "password=[redacted:password]", "password"),
        ("DB_PASSWORD=abcd,ef;Host=h", "DB_PASSWORD=[redacted:password];Host=h", "password"),
        ("Pwd=abcd;", "Pwd=[redacted:password];", "password"),
        ('{"password": "correct horse"}', '{"password": "[redacted:password]"}', "password"),
        ("{'api_key': 'abcd'}", "{'api_key': '[redacted:password]'}", "password"),
        ('{\\"password\\": \\"abcd\\"}', '{\\"password\\": \\"[redacted:password]\\"}', "password"),
        ("API key: abc-def-123", "API key: [redacted:password]", "password"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "aws_secret_access_key = [redacted:password]", "password"),
        ("my password is hunter22", "my password is [redacted:password]", "password"),
        ("log in with password hunter2.", "log in with password [redacted:password].", "password"),
        ("the Password Tr0ub4dor&3, again", "the Password [redacted:password], again", "password"),
        ("密码：abc12345", "密码：[redacted:password]", "password"),
        ("İſ password: hunter22", "İſ password: [redacted:password]", "password"),
        ("a paſſword: hunter22", "a paſſword: [redacted:password]", "password"),
        ("密码是abc12345", "密码是[redacted:password]", "password"),
        ("token: 0a1b2c3d4e5f6a7b", "token: [redacted:token]", "token"),
        ("password=" + "x1" * 5_000, "password=[redacted:password]", "password"),
        ("card 4111 1111 1111 1111, 12/27", "card [redacted:card_number], 12/27", "card_number"),
        ("12 4111-1111-1111-1111", "12 [redacted:card_number]", "card_number"),
        ("5500005555555559.", "[redacted:card_number].", "card_number"),
        ("3782 822463 10005", "[redacted:card_number]", "card_number"),
        ("6011111111111117", "[redacted:card_number]", "card_number"),
        ("DE89 3704 0044 0532 0130 00 AND MORE", "[redacted:iban] AND MORE", "iban"),
        ("to GB29NWBK60161331926819 now", "to [redacted:iban] now", "iban"),
    ],
)
def test_a_secret_is_redacted(text: str, scrubbed: str, kind: str) -> None:
    assert scrub_secrets(text) == ScrubbedText(text=scrubbed, counts={kind: 1})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "See you on 2025-03-02 at 14:05, or 1767225600000 in milliseconds.",
        "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        "01890a5d-ac96-774b-bcce-b302099a8057",
        "commit 9a1ddca54478ec08d96926f2b1c0d3e4f5a6b7c8",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "Order 4111111111111112, tracking 1Z999AA10123456784",
        "1234 5678 9012 3456",
        "6900000000000000",
        "pi is 3.1415926535897932384",
        "v4.4111111111111111",
        "+49 30 901820, 555-0100",
        "DE89 3704 0044 0532 0130 01",
        "DE89 3704 0044 0532 0130",
        "DE89370400440532013000X",
        "DE89 3704  0044 0532 0130 00",
        "XX12 3456 7890 1234 5678",
        "GB29 nwbk 6016 1331 9268 19",
        "sk-learn-pipeline-with-many-words-in-it",
        "ask-me-anything-about-2025-and-the-boat",
        "The password is on the fridge.",
        "I forgot my password: again!",
        "The password is required",
        "a password manager, 1password",
        "hash the password sha256 or argon2id, not md5",
        "the password field2 of the form",
        "password=${DB_PASSWORD}",
        "password=<your password>",
        "password: ********",
        "Secret: I never liked tea.",
        "token: five euros",
        "max_tokens=4096",
        "a bearer of extraordinary-news-for-us-all",
        "Look for the -----BEGIN PRIVATE KEY----- line.",
        "https://example.org:8080/path?x=1",
        "http://[::1]:8080/a@b",
        "mail bob@example.org",
        "key: C minor, tempo: 120",
    ],
)
def test_ordinary_words_and_ids_are_preserved(text: str) -> None:
    assert scrub_secrets(text) == ScrubbedText(text=text)


def test_an_ordinary_conversation_contains_no_secret() -> None:
    lines = HARBOUR.read_text(encoding="utf-8").splitlines()
    found = {
        at: made.counts
        for at, line in enumerate(lines, 1)
        if (made := scrub_secrets(json.loads(line)["content"])).counts
    }
    assert len(lines) > 400
    assert found == {}


def test_each_secret_is_counted_by_its_kind() -> None:
    text = f"{JWT} and {JWT}; password=abcd password=efgh, card 4111111111111111; DE89370400440532013000"
    made = scrub_secrets(text)
    assert made.counts == {"jwt": 2, "password": 2, "card_number": 1, "iban": 1}
    assert "abcd" not in made.text


SECRETS = st.sampled_from(
    [
        *(
            JWT,
            PEM,
            CUT_PEM,
            "password=",
            "password: ",
            "hunter22",
            " is ",
            "token: ",
            '"',
            "'",
            "[redacted:",
            "jwt]",
            "\n",
        ),
        *(
            "sk-proj-abcDEF1234567890abcdef",
            "Bearer ",
            "4111111111111111",
            "DE89370400440532013000",
            " ",
            "-",
            "://a:",
            "@h",
        ),
    ]
)


@given(st.lists(st.one_of(SECRETS, st.text(max_size=4)), max_size=12).map("".join))
def test_scrubbing_again_finds_nothing_more(text: str) -> None:
    made = scrub_secrets(text)
    assert bool(made.counts) == (made.text != text)
    assert scrub_secrets(made.text) == ScrubbedText(text=made.text)


@pytest.mark.parametrize("before", ["api", "Access", "auth", "REFRESH", "secret", "private", "session"])
@pytest.mark.parametrize("between", ["", " ", "_", "-"])
def test_a_key_of_any_name_is_redacted(before: str, between: str) -> None:
    made = scrub_secrets(f"my {before}{between}key: abc-def-123, then more")
    assert made == ScrubbedText(text=f"my {before}{between}key: [redacted:password], then more", counts={"password": 1})


@pytest.mark.parametrize(
    "piece",
    [
        "eyJ",
        "eyJaaaaaaaa.",
        "sk-",
        "-----BEGIN PRIVATE KEY-----",
        "-",
        "password:",
        'password="',
        "bearer ",
        "://a:",
        "4111 ",
        "DE89",
        "DE 89",
        "secret: ",
        "token=",
        "secret access key id",
        "GB29 NWBK6016 ",
        "4111111111111111 ",
    ],
)
def test_a_text_crafted_to_be_slow_is_scanned_quickly(piece: str) -> None:
    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        started = process_time()
        scrub_secrets(text)
        return process_time() - started

    # Twenty times the text may take a hundred times as long; a quadratic pattern would take four hundred.
    assert seconds(200_000) < 100 * max(seconds(10_000), 0.002)


@pytest.mark.parametrize(
    "escape", [r"\n", r"\\t", r"\u2028", r"\x0a", "\x1b[32m", r"\u001b[1;31m", r"\x1b[0m", r"\e[4m"]
)
@pytest.mark.parametrize("secret", [f"ghp_{DIGITS36}", "AKIAIOSFODNN7EXAMPLE", "glpat-abcdefghij0123456789", JWT])
def test_an_escape_separates_words_and_stays(escape: str, secret: str) -> None:
    scrubbed = scrub_secrets(f"before{escape}{secret}{escape}after")
    (kind,) = scrubbed.counts
    assert scrubbed.text == f"before{escape}[redacted:{kind}]{escape}after"
    assert scrub_secrets(scrubbed.text).counts == {}


def test_escapes_without_a_secret_stay() -> None:
    text = "C:\\new\\table \x1b[1m bold \\u00e9 \U000f006e"
    assert scrub_secrets(text).text == text
