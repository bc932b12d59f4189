"""Select the conversations that a command uses: the constructed ones by default, others by an option."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from benchmarks.quality_languages import decoys, misled, other_language, own_language
from benchmarks.quality_long import long_chats
from benchmarks.quality_ordinary import ordinary, small
from benchmarks.quality_sets import Told, locomo, made
from benchmarks.quality_unseen import unseen


def add_sets(parser: ArgumentParser, /) -> None:
    """Add the options that choose the conversations to `parser`."""
    parser.add_argument("--data", type=Path, help="a file in LoCoMo's form, gz or not")
    parser.add_argument(
        "--corrections", type=Path, nargs="+", default=(), metavar="FILE", help="corrected evidence for --data"
    )
    parser.add_argument("--long", action="store_true", help="long conversations with an assistant")
    parser.add_argument(
        "--unseen", action="store_true", help="conversations written before recall was asked about them"
    )
    parser.add_argument("--small", action="store_true", help="small spaces of single facts")
    parser.add_argument("--ordinary", action="store_true", help="ordinary conversations of some 200 turns")
    parser.add_argument("--languages", action="store_true", help="small spaces in many languages, and across languages")
    parser.add_argument("--decoys", action="store_true", help="small spaces whose other memories share words")
    parser.add_argument("--misled", action="store_true", help="more of these, which the order was chosen on")
    parser.add_argument(
        "--half",
        choices=("fit", "held"),
        default="held",
        help="whose questions of --small, --ordinary, --languages and --decoys are asked",
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="of these only the ones of such names")


def groups(arguments: Namespace, /) -> list[list[Told]]:
    """Return the conversations of each group that the options choose."""
    found: list[list[Told]] = []
    if arguments.data is not None:
        found.append(locomo(arguments.data, arguments.corrections))
    if arguments.long:
        found.append(long_chats())
    if arguments.unseen:
        found.append(unseen())
    if arguments.small:
        found.append(small(arguments.half))
    if arguments.ordinary:
        found.append(ordinary(arguments.half))
    if arguments.languages:
        found += [own_language(arguments.half), other_language(arguments.half)]
    if arguments.decoys:
        found.append(decoys(arguments.half))
    if arguments.misled:
        found.append(misled())
    only = arguments.only
    asked = [[told for told in sets if only is None or told.name in only] for sets in found or [made()]]
    return [sets for sets in asked if sets]


def chosen(arguments: Namespace, /) -> list[Told]:
    """Return the conversations that the options choose."""
    return [told for sets in groups(arguments) for told in sets]
