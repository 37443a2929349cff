# SPDX-License-Identifier: MIT
"""The status LED: on while a report waits to be sent, blinking for a fault."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from peel_device.interfaces import Board

_BLINK_MS = 250
_GAP_MS = 1000


def blink(board: "Board", count: int, rounds: int) -> None:
    """Blink `count` times, `rounds` times over."""
    for _ in range(rounds):
        for _ in range(count):
            board.led(True)
            board.pause(_BLINK_MS)
            board.led(False)
            board.pause(_BLINK_MS)
            board.feed()
        board.pause(_GAP_MS)
