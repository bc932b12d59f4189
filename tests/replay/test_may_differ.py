from pathlib import Path

from elytron_replay.comparison import normalise_report


def test_naturally_varying_values_are_ignored_and_paths_lose_their_folder() -> None:
    report = normalise_report(
        {
            "engine": "sqlite",
            "path": "/tmp/a/x.archive",
            "store_check": {"blobs": 3, "documents": 2},
            "items": [{"text": "see /tmp/a/x.archive", "metadata": {"engine": "diesel", "blobs": 1}}],
            "sequence": 4,
        },
        folder=Path("/tmp/a"),
    )
    assert report == {
        "engine": "(differs by nature)",
        "path": "${tmp}/x.archive",
        "store_check": {"blobs": "(differs by nature)", "documents": 2},
        "items": [{"text": "see ${tmp}/x.archive", "metadata": {"engine": "diesel", "blobs": 1}}],
        "sequence": 4,
    }
