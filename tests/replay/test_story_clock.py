from elytron_core.ids import is_id
from elytron_replay.fixture import Fixture, FixtureStep, FixtureTelling, StoryIds, parse_fixture


def story() -> Fixture:
    return parse_fixture(
        b'{"format": "elytron.fixture", "version": 1, "id": "tea", "title": "Tea.", "spaces": ["ada"],'
        b' "clock": {"start": "2026-01-01T00:00:00Z", "step": 10}, "steps": [{"op": "inspect"}]}',
        name="tea.json",
    )


def test_ids_depend_only_on_seed_and_step() -> None:
    one, other = StoryIds("tea"), StoryIds("tea")
    one.begin(1)
    _ = [one.new(), one.secret(32), one.new()]
    one.begin(2)
    other.begin(2)
    assert (one.new(), one.secret(8)) == (other.new(), other.secret(8))


def test_secrets_do_not_affect_ids() -> None:
    one, other = StoryIds("tea"), StoryIds("tea")
    _ = one.secret(40)
    assert one.new() == other.new()


def test_ids_of_later_steps_sort_after_earlier_ones() -> None:
    ids = StoryIds("tea")
    made: list[str] = []
    for step in range(20):
        ids.begin(step)
        made += [ids.new() for _ in range(3)]
    assert made == sorted(set(made))
    assert all(map(is_id, made))


def test_another_seed_yields_other_ids() -> None:
    assert StoryIds("tea").new() != StoryIds("coffee").new()


def test_time_is_constant_within_a_step_and_advances_between_steps() -> None:
    telling = FixtureTelling(story())
    start = story().clock.start
    seen: list[int] = []
    for number in (1, 2, 3):
        telling.begin(number, FixtureStep(op="inspect"))
        seen += [telling.clock.now() - start, telling.clock.now() - start]
    assert seen == [0, 0, 10_000, 10_000, 20_000, 20_000]


def test_a_step_can_set_its_time_and_the_next_one_continues_from_it() -> None:
    telling = FixtureTelling(story())
    start = story().clock.start
    telling.begin(1, FixtureStep.model_construct(op="inspect", at=start + 500_000))
    at = telling.clock.now() - start
    telling.begin(2, FixtureStep(op="inspect"))
    assert (at, telling.clock.now() - start) == (500_000, 510_000)
