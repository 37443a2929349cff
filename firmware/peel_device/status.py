"""The status LED: on while working, a short flash per acknowledged message, a count of blinks for a fault."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from peel_device.interfaces import Board

_FLASH_MS = 30
_BLINK_MS = 250
_GAP_MS = 1000


def flash(board: "Board") -> None:
    """Something was delivered."""
    board.led(True)
    board.pause(_FLASH_MS)
    board.led(False)


def blink(board: "Board", count: int, rounds: int) -> None:
    """Show a fault's number, `rounds` times."""
    for _ in range(rounds):
        for _ in range(count):
            board.led(True)
            board.pause(_BLINK_MS)
            board.led(False)
            board.pause(_BLINK_MS)
            board.feed()
        board.pause(_GAP_MS)
