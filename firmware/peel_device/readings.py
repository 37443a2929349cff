# SPDX-License-Identifier: MIT
"""Convert physical readings to the integers that the core takes (SPEC section 6).

The value of a working sensor never decides whether there is a report. The count of skipped reports is published and
must not reveal a reading. So every number, even an infinite one, is clamped to the range or to a declared category, and
an undeclared name counts as the last category.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

READING_ONE = 1 << 15


def to_q15(value: float, low: float, high: float) -> int:
    """Scale a reading in [low, high] to Q15, clamped. Raises ValueError for NaN."""
    if value != value:
        raise ValueError("the reading is not a number")
    if value <= low:
        return -READING_ONE
    if value >= high:
        return READING_ONE
    return round(READING_ONE * (2 * value - low - high) / (high - low))


def to_category(value: "Any", count: int, names: list[str], edges: "list[float] | None") -> int:
    """Return the index of one of `count` categories, given by name, by index, or as a number between edges.

    Any other number becomes the nearest index, and an unknown name the last one. Raises ValueError for NaN, and TypeError
    for a name if the categories have no names.
    """
    last = count - 1
    if isinstance(value, str):
        if not names:
            raise TypeError("the categories have no names: give an index")
        return names.index(value) if value in names else last
    if value != value:
        raise ValueError("the reading is not a number")
    if edges is not None:
        return sum(1 for edge in edges if value >= edge)
    nearest: int = round(min(max(value, 0), last))
    return nearest
