"""Excerpts of a long text: the sentences that are shown."""

from elytron_core.policy.ranking.excerpts import passages_of, pieces_of

FILLING = "Most people underestimate how long it takes. "
TEXT = f"Great question! {FILLING * 12}Pick the rider with the fewest open parcels. {FILLING * 12}That is all."


def shown(text: str, terms: tuple[str, ...], size: int) -> list[str]:
    return [text[start:end].strip() for start, end in passages_of(text, terms, size)]


def test_a_short_text_is_shown_completely() -> None:
    assert passages_of("Tea at four.", ("tea",), 100) == ((0, 12),)


def test_the_matching_sentence_is_shown_with_its_neighbours() -> None:
    (opening, answer) = shown(TEXT, ("rider", "parcel"), 200)
    assert opening == "Great question!"
    assert "Pick the rider with the fewest open parcels." in answer
    assert len(opening) + len(answer) <= 200


def test_rare_terms_of_the_text_count_more() -> None:
    text = "The tent is red. " * 20 + "The tent weighs two kilos. " + "The tent is red. " * 20
    assert "The tent weighs two kilos." in shown(text, ("tent", "weigh"), 60)[0]


def test_without_a_matching_term_the_beginning_is_shown() -> None:
    assert shown(TEXT, (), 60)[0].startswith("Great question!")
    assert shown(TEXT, ("zebra",), 60)[0].startswith("Great question!")
    assert passages_of("x" * 500, ("zebra",), 60) == ((0, 60),)


def test_chinese_sentences_are_separated() -> None:
    text = "今天天气很好。" * 30 + "药店六点关门。" + "我们去公园。" * 30
    assert any("药店六点关门。" in part for part in shown(text, ("药店",), 40))


def test_a_text_is_split_into_sentences_with_short_ones_joined() -> None:
    text = "Hi Noor! The roofer wants nine hundred for it. He comes on the twelfth of May. Thanks."
    assert pieces_of(text, 8) == (
        "Hi Noor! The roofer wants nine hundred for it.",
        "He comes on the twelfth of May. Thanks.",
    )
    assert pieces_of("The roofer wants nine hundred for it. Fine.", 8) == pieces_of("Ok.", 8) == pieces_of("", 8) == ()


def test_a_long_text_is_split_into_the_requested_pieces_without_loss() -> None:
    pieces = pieces_of(TEXT, 4)
    assert len(pieces) == 4
    assert " ".join(pieces) == TEXT
    assert max(map(len, pieces)) < 2 * min(map(len, pieces))
