# SPDX-License-Identifier: MIT
"""Entry point on the device: read the bundle, find the board, run. Ctrl-C gives the prompt."""

import gc
import sys

COLLECT_EVERY = 16384  # bytes: small heaps fragment when collected late
if hasattr(gc, "threshold"):  # MicroPython only
    # Before the imports: objects that they leave would otherwise be spread over the heap, with no piece large enough for TLS.
    gc.threshold(COLLECT_EVERY)

import peel_load  # noqa: E402
from peel_device import app, config  # noqa: E402
from peel_device.errors import BoardError, ConfigError, DeviceError  # noqa: E402
from peel_device.storage import FlashFiles  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from peel_device.interfaces import Board

BUNDLE = "peel.json"
ROOT = "peel"
FAULT_ROUNDS = 10
_BLINK_MS = 250
_GAP_MS = 1000


def find_board(name: str) -> "Board":
    """Make the board that the bundle names, or the one that this MicroPython was built for."""
    name = name or detect()
    made: "Board" = __import__("boards." + name, None, None, ("Board",)).Board()
    return made


def detect() -> str:
    """Return the board's name, from MicroPython's platform. A Pico with a network is a Pico W."""
    if sys.platform == "rp2":
        try:
            __import__("network")
        except ImportError:
            return "pico"
        return "pico_w"
    if sys.platform in ("esp32", "qemu"):
        return sys.platform
    raise BoardError("board: cannot detect a board on platform %s: set `board` in the bundle" % sys.platform)


def read_bundle(files: FlashFiles) -> config.Config:
    """Read and check the bundle."""
    text = files.read(BUNDLE)
    if text is None:
        raise ConfigError(BUNDLE, "is not on the device: provision it first")
    return config.load(text)


def main() -> None:
    """Run the device. A fault is printed and blinked. Then the board reboots, unless only a new bundle can help."""
    board = None
    try:
        files = FlashFiles()
        settings = read_bundle(files)
        board = find_board(settings.board)
        device = app.App(settings, peel_load.load(), board, files, ROOT)
        device.start()
        print("peel: %s of fleet %s is up on %s" % (settings.name, settings.fleet, board.name))
        device.run()
    except Exception as fault:
        _report_fault(fault)
        board = board or _board_without_bundle()
        if board is not None:
            blink(board, fault.blinks if isinstance(fault, DeviceError) else DeviceError.blinks, FAULT_ROUNDS)
            if not isinstance(fault, ConfigError):
                board.reset()


def blink(board: "Board", count: int, rounds: int) -> None:
    """Blink the status LED `count` times, `rounds` times over."""
    for _ in range(rounds):
        for _ in range(count):
            board.led(True)
            board.pause(_BLINK_MS)
            board.led(False)
            board.pause(_BLINK_MS)
            board.feed()
        board.pause(_GAP_MS)


def _board_without_bundle() -> "Board | None":
    """Return a board for blinking when the bundle is at fault, or None."""
    try:
        return find_board("")
    except Exception:
        return None


def _report_fault(fault: Exception) -> None:
    if isinstance(fault, DeviceError):
        print("peel: stopped:", fault)
    elif hasattr(sys, "print_exception"):
        sys.print_exception(fault)
    else:
        raise fault


if __name__ == "__main__":
    main()
