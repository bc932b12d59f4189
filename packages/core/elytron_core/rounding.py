"""Rounding of many numbers, as `round` does it and several times faster."""

from collections.abc import Collection, Iterable
from itertools import compress

_FOUR = 10_000.0
_SIX = 1_000_000.0
_EXACT = 100_000.0
"""Below this, a number times either is off by far less than what is kept from a tie."""
_TIE = 0.4999
_WHOLE = 3 * 2.0**51
"""Added, it leaves a number of that size no room for a fraction; taken off again, the nearest whole number is left."""


def four(number: float, /) -> float:
    """Return `number` rounded to four places: what `round(number, 4)` gives."""
    if 0.0 <= number < _EXACT:
        scaled = number * _FOUR
        whole = scaled + _WHOLE - _WHOLE
        # Both are whole numbers that a float holds exactly, so that their quotient is the float nearest to the decimal.
        if -_TIE < scaled - whole < _TIE:
            return whole / _FOUR
    return round(float(number), 4)


def six(number: float, /) -> float:
    """Return `number` rounded to six places: what `round(number, 6)` gives."""
    if 0.0 <= number < _EXACT:
        scaled = number * _SIX
        whole = scaled + _WHOLE - _WHOLE
        if -_TIE < scaled - whole < _TIE:
            return whole / _SIX
    return round(float(number), 6)


def four_each(names: Iterable[str], numbers: Collection[float], /) -> dict[str, float]:
    """Return the numbers that are not 0 by their names, each as `four` gives it, without a call for each."""
    return {
        name: whole / _FOUR
        if 0.0 < number < _EXACT and -_TIE < (scaled := number * _FOUR) - (whole := scaled + _WHOLE - _WHOLE) < _TIE
        else four(number)
        for name, number in compress(zip(names, numbers, strict=True), numbers)
    }
