"""A sealed store: the disk holds only ciphertext, and erasing a space destroys its key too."""

import tempfile
from pathlib import Path

import elytron
from elytron import ElytronError
from elytron_store.sealed.providers import FileKeys
from elytron_store.sealed.store import SealedStore

SECRET = b"the safe opens with 7-31-4"


def shows(folder: Path) -> bool:
    """Return whether the secret appears in any byte below `folder`."""
    return any(SECRET in path.read_bytes() for path in folder.rglob("*") if path.is_file())


with tempfile.TemporaryDirectory() as folder:
    home = Path(folder)
    # Keep the key file apart from the store and its backups: whoever has both can read everything.
    keys = FileKeys.create(home / "keys.json")
    store = home / "sealed"
    store.mkdir()

    with elytron.open(store / "memory.db", space="ada", keys=keys) as memory:
        memory.add(SECRET.decode(), speaker="Ada")
        print("recalled with the key:", memory.recall("how does the safe open?").hits[0].text)
    print("plain text on disk:", shows(store))

    try:
        with elytron.open(store / "memory.db"):
            pass
    except ElytronError as error:
        print(f"without the key: {error.key}: {error}")

    keys.add_key()
    with elytron.open(store / "memory.db", space="ada", keys=keys) as memory:
        sealed = memory.runtime.store
        assert isinstance(sealed, SealedStore)
        print("keys re-encrypted:", memory.run(sealed.rotate_key_encryption()))
        print("still recalled:", memory.recall("safe").outcome)

        erased = memory.erase(whole_space="ada", reason="asked for")
        print("erased, key included:", dict(erased.removed))
        print("recalled after that:", memory.recall("safe").outcome)
