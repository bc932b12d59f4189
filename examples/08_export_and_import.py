"""One file moves a space anywhere: restored exactly into an empty space, or merged into one in use."""

import tempfile
from pathlib import Path

import elytron
from elytron import ImportMode, MemoryImportRequest, MemorySpaceExportRequest

with tempfile.TemporaryDirectory() as folder:
    archive = Path(folder) / "ada.elytron"

    with elytron.open(Path(folder) / "phone.db", space="ada") as phone:
        phone.add(["The tide table hangs in the kitchen.", "The boat key is under the oar."], speaker="Ada")
        told = phone.export(archive, include_private=True)
        print(f"exported {told.documents} and {told.entries} journal entries, {told.size_bytes} bytes")

    # Another engine, the same state: the fingerprints prove it.
    with elytron.open(f"file:{folder}/laptop", space="ada") as laptop:
        brought = laptop.import_archive(archive)
        now = laptop.inspect(fingerprints=True)
        print("restored exactly:", now.state_fingerprint == told.state_fingerprint == brought.state_fingerprint)
        print("journal the same:", now.event_fingerprint == told.event_fingerprint)
        print(laptop.recall("where is the boat key?").hits[0].text)

    # A space in use imports only what it does not have yet, once.
    with elytron.open(Path(folder) / "tablet.db", space="ada") as tablet:
        tablet.add("The ferry leaves at seven.", speaker="Ada")
        news = MemoryImportRequest(path=str(archive), mode=ImportMode.BOOTSTRAP)
        print("first time:", tablet.import_archive(news).imported, "again:", tablet.import_archive(news).imported)

        copy = Path(folder) / "tablet.elytron"
        tablet.export(MemorySpaceExportRequest(path=str(copy), include_private=True))
        print("a backup is one file:", copy.name)
