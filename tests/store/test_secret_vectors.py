"""Published test vectors for user keys: BIP-39, BIP-32, BIP-85, RFC 5297, RFC 7914, RFC 9106."""

import hashlib
from base64 import b64decode
from importlib import resources

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from mnemonic import Mnemonic

from elytron_core.errors import InvalidInput, SealBroken, WordsInvalid
from elytron_core.text import recovery_words as words
from elytron_store.sealed.cipher import TagCipher
from elytron_store.secret.derivation import user_key
from elytron_store.secret.derivation.key_tree import HARDENED, PrivateNode, child_secret, node_entropy
from elytron_store.secret.records import DerivationTerms, KeyDerivation

LEGAL = "legal winner thank year wave sausage worth useful legal winner thank yellow"
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
BIP85_MASTER = (
    "xprv9s21ZrQH143K2LBWUUQRFXhucrQqBpKdRRxNVq2zBqsx8HVqFk2uYo8kmbaLLHRdqtQpUm98uKfu3vca1LqdGhUtyoFnCNkfmXRyPXLjbKb"
)
BIP32_SEED = bytes(range(16))
BIP32_CHAIN: dict[tuple[int, ...], str] = {
    (): (
        "xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiC"
        "hkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi"
    ),
    (HARDENED,): (
        "xprv9uHRZZhk6KAJC1avXpDAp4MDc3sQKNxDiPvvkX8Br5ngLNv1TxvUxt4c"
        "V1rGL5hj6KCesnDYUhd7oWgT11eZG7XnxHrnYeSvkzY7d2bhkJ7"
    ),
    (HARDENED, 1): (
        "xprv9wTYmMFdV23N2TdNG573QoEsfRrWKQgWeibmLntzniatZvR9BmLnvSxq"
        "u53Kw1UmYPxLgboyZQaXwTCg8MSY3H2EU4pWcQDnRnrVA1xe8fs"
    ),
    (HARDENED, 1, 2 | HARDENED): (
        "xprv9z4pot5VBttmtdRTWfWQmoH1taj2axGVzFqSb8C9xaxKymcFzXBDptWm"
        "T7FwuEzG3ryjH4ktypQSAewRiNMjANTtpgP4mLTj34bhnZX7UiM"
    ),
    (HARDENED, 1, 2 | HARDENED, 2, 1_000_000_000): (
        "xprvA41z7zogVVwxVSgdKUHDy1SKmdb533PjDz7J6N6mV6uS3ze1ai8FHa8k"
        "mHScGpWmj4WggLyQjgPie1rFSruoUihUZREPSL39UNdE3BBDu76"
    ),
}
"""Test vector 1 of BIP-32."""
ZEROS_SEED = bytes.fromhex(
    "4b381541583be4423346c643850da4b320e46a87ae3d2a4e6da11eba819cd4ac"
    "ba45d239319ac14f863b8d5ab5a0d0c64d2e8a1e7d1457df2e5a3c51c73235be"
)
ZEROS_CHILD = (
    "xprv9uPDJpEQgRQfDcW7BkF7eTya6RPxXeJCqCJGHuCJ4GiRVLzkTXBAJMu2qaMWPrS7AANYqdq6vcBcBUdJCVVFceUvJFjaPdGZ2y9WACViL4L"
)
"""Test vector 3 of BIP-32: leading zeros are retained."""


def node_of(serialised: str) -> PrivateNode:
    number = 0
    for letter in serialised:
        number = number * 58 + BASE58.index(letter)
    data = number.to_bytes(82, "big")
    assert hashlib.sha256(hashlib.sha256(data[:78]).digest()).digest()[:4] == data[78:]
    return PrivateNode(key=data[46:78], chain=data[13:45])


@pytest.mark.parametrize(
    ("entropy", "told", "seed"),
    [
        (
            "00" * 16,
            "abandon " * 11 + "about",
            (
                "c55257c360c07c72029aebc1b53c05ed0362ada38ead3e3e9efa3708e5349553"
                "1f09a6987599d18264c1e1c92f2cf141630c7a3c4ab7c81b2f001698e7463b04"
            ),
        ),
        (
            "7f" * 16,
            LEGAL,
            (
                "2e8905819b8723fe2c1d161860e5ee1830318dbf49a83bd451cfb8440c28bd6f"
                "a457fe1296106559a3c80937a1c1069be3a3a5bd381ee6260e8d9739fce1f607"
            ),
        ),
        (
            "9e885d952ad362caeb4efe34a8e91bd2",
            "ozone drill grab fiber curtain grace pudding thank cruise elder eight picnic",
            (
                "274ddc525802f7c828d8ef7ddbcdc5304e87ac3535913611fbbfa986d0c9e547"
                "6c91689f9c8a54fd55bd38606aa6a8595ad213d4c9c9f9aca3fb217069a41028"
            ),
        ),
    ],
)
def test_words_and_seeds_match_the_bip39_vectors(entropy: str, told: str, seed: str) -> None:
    assert words.words_of(bytes.fromhex(entropy)) == told
    assert words.entropy_of(told.upper()).hex() == entropy
    assert words.seed_of(told, passphrase="TREZOR").hex() == seed


@pytest.mark.parametrize("size", [16, 20, 24, 28, 32])
def test_words_agree_with_another_library(size: int) -> None:
    peer = Mnemonic("english")
    for number in range(20):
        entropy = hashlib.sha512(bytes([size, number])).digest()[:size]
        told = words.words_of(entropy)
        assert told == peer.to_mnemonic(entropy)
        assert words.entropy_of(told) == entropy
        assert words.seed_of(told, passphrase="café") == peer.to_seed(told, "café")


def test_the_shipped_word_list_is_the_english_one() -> None:
    data = resources.files("elytron_core.text").joinpath("recovery_words.txt").read_bytes()
    assert hashlib.sha256(data).hexdigest() == "2f5eed53a4727b4bf8880d8f3f199efc90e58503646d9ff8eff3a2ed3b24dbda"
    assert len(set(words.english_words())) == 2048
    assert len({word[:4] for word in words.english_words()}) == 2048
    assert words.english_words() == tuple(sorted(words.english_words()))


@pytest.mark.parametrize(
    "wrong",
    [
        LEGAL.replace("yellow", "zebra"),
        "winner legal" + LEGAL.removeprefix("legal winner"),
        LEGAL.replace("wave", "harbour-pilot"),
        LEGAL.removesuffix(" yellow"),
        "",
        "\ud800 " * 12,
    ],
)
def test_wrong_words_are_rejected_without_naming_any(wrong: str) -> None:
    with pytest.raises(WordsInvalid) as refused:
        words.entropy_of(wrong)
    assert refused.value.key == "words_invalid"
    assert not {"zebra", "winner", "legal", "wave", "harbour-pilot"} & set(refused.value.message.split())


@pytest.mark.parametrize("path", list(BIP32_CHAIN))
def test_children_match_the_bip32_vectors(path: tuple[int, ...]) -> None:
    assert PrivateNode.of_seed(BIP32_SEED).descend(path) == node_of(BIP32_CHAIN[path])


def test_leading_zeros_of_a_key_are_retained() -> None:
    assert PrivateNode.of_seed(ZEROS_SEED).child(HARDENED) == node_of(ZEROS_CHILD)


def test_entropy_matches_the_bip85_vectors() -> None:
    root = node_of(BIP85_MASTER)
    first = root.descend((83696968 | HARDENED, HARDENED, HARDENED))
    assert first.key.hex() == "cca20ccb0e9a90feb0912870c3323b24874b0ca3d8018c4b96d0b97c0e82ded0"
    assert node_entropy(first).hex() == (
        "efecfbccffea313214232d29e71563d941229afb4338c21f9517c41aaa0d16f0"
        "0b83d2a09ef747e7a64e8e2bd5a14869e693da66ce94ac2da570ab7ee48618f7"
    )
    second = root.descend((83696968 | HARDENED, HARDENED, 1 | HARDENED))
    assert second.key.hex() == "503776919131758bb7de7beb6c0ae24894f4ec042c26032890c29359216e21ba"
    told = node_entropy(root.descend(n | HARDENED for n in (83696968, 39, 0, 12, 0)))[:16]
    assert words.words_of(told) == "girl mad pet galaxy egg matter matrix prison refuse sense ordinary nose"
    assert child_secret(root, size=64, index=0).hex() == (
        "492db4698cf3b73a5a24998aa3e9d7fa96275d85724a91e71aa2d645442f8785"
        "55d078fd1f1f67e368976f04137b1f7a0d19232136ca50c44614af72b5582a5c"
    )


def test_a_node_reveals_no_key() -> None:
    node = PrivateNode.of_seed(BIP32_SEED)
    assert repr(node) == "PrivateNode()"


def test_tags_are_sealed_by_aes_siv() -> None:
    """Appendix A.1 of RFC 5297, and the tag cipher, which has no associated data."""
    key = bytes.fromhex("fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
    data = bytes.fromhex("101112131415161718191a1b1c1d1e1f2021222324252627")
    plain = bytes.fromhex("112233445566778899aabbccddee")
    sealed = AESSIV(key).encrypt(plain, [data])
    assert sealed.hex() == "85632d07c6e8f37f950acd320a2ecc9340c02b9690c4dc04daef7f6afe5c"


def test_equal_tags_have_equal_seals_only_within_one_space() -> None:
    one, other = TagCipher(bytes(32)), TagCipher(bytes(31) + b"1")
    assert one.seal(" Work ") == one.seal("work")
    assert one.seal("work") != one.seal("home")
    assert one.seal("work") != other.seal("work")
    assert one.open(one.seal("Work")) == "work"
    assert b64decode(one.seal("work")).startswith(bytes.fromhex(one.seal_key("WORK ")))
    for altered in (other.seal("work"), one.seal("work")[:-4], "no base64"):
        with pytest.raises(SealBroken):
            one.open(altered)


def test_passphrases_are_stretched_as_published() -> None:
    """Argon2id vectors of the reference implementation and RFC 9106, and scrypt vectors of RFC 7914, section 12."""
    argon = DerivationTerms.model_construct(
        function=KeyDerivation.ARGON2ID, salt=b"somesalt", memory_kib=65536, rounds=2, lanes=1
    )
    expected = "09316115d5cf24ed5a15a31a3ba326e5cf32edc24702987c02b6566f61913cf7"
    assert user_key.stretch_argon2(b"password", argon).hex() == expected
    published = Argon2id(
        salt=b"\2" * 16, length=32, iterations=3, lanes=4, memory_cost=32, secret=b"\3" * 8, ad=b"\4" * 12
    )
    assert published.derive(b"\1" * 32).hex() == "0d640df58d78766c08c037a34a8b53c9d01ef0452d75b65eb52520e96b01e659"
    scrypt = DerivationTerms.model_construct(function=KeyDerivation.SCRYPT, salt=b"SodiumChloride", memory_kib=16384)
    assert user_key.stretch_scrypt(b"pleaseletmein", scrypt.model_copy(update={"lanes": 1})).hex() == (
        "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"
    )


@pytest.mark.parametrize("function", [KeyDerivation.ARGON2ID, KeyDerivation.SCRYPT])
def test_a_passphrases_key_depends_on_its_parameters(function: KeyDerivation) -> None:
    terms = user_key.terms_of_passphrase(function)
    key = user_key.derive_key("correct horse café", terms)
    assert key == user_key.derive_key(" correct horse cafe\u0301 ", DerivationTerms.from_bytes(terms.to_bytes()))
    assert key != user_key.derive_key("correct horse cafe", terms)
    assert key != user_key.derive_key("correct horse café", user_key.terms_of_passphrase(function))


def test_parameters_beyond_their_limits_are_rejected() -> None:
    terms = user_key.terms_of_passphrase()
    for wrong in ({"memory_kib": 1 << 30}, {"rounds": 10_000}, {"memory_kib": 64}, {"salt": b""}, {"rounds": 0}):
        with pytest.raises(InvalidInput):
            DerivationTerms.from_bytes(terms.model_copy(update=wrong).to_bytes())


def test_a_recovery_key_is_the_child_of_its_index() -> None:
    first, second = (user_key.derive_key(LEGAL, user_key.terms_of_words(index=index)) for index in (0, 1))
    assert first == child_secret(PrivateNode.of_seed(words.seed_of(LEGAL)), size=32, index=0)
    assert first != second


def test_a_short_passphrase_is_rejected_without_echo() -> None:
    with pytest.raises(InvalidInput) as refused:
        user_key.require_passphrase("harbour")
    assert "harbour" not in refused.value.message
