"""Rounding of many numbers, as `round` does it and several times faster."""

import math

_PLACES = 10_000.0
_EXACT = 100_000.0
"""Below this, a number times `_PLACES` is off by far less than what is kept from a tie."""
_TIE = 0.4999


def four(number: float, /) -> float:
    """Return `number` rounded to four places: what `round(number, 4)` gives."""
    if 0.0 <= number < _EXACT:
        scaled = number * _PLACES
        whole = math.floor(scaled + 0.5)
        # Both are whole numbers that a float holds exactly, so that their quotient is the float nearest to the decimal.
        if -_TIE < scaled - whole < _TIE:
            return whole / _PLACES
    return round(float(number), 4)
