# SPDX-License-Identifier: MIT
"""Run the application like a board that has just been switched on. For CPython and MicroPython.

Usage: python launch.py [--verbose], in the folder that is the device's flash. The process ends when it is killed, or when the
application stops with a fault that it cannot repair.
"""

import sys


def _add_micropython_names():
    """Give CPython those modules and functions of MicroPython that the application uses, and the core as a module."""
    import binascii
    import gc
    import struct
    import time

    from peel_core import peelcore

    sys.modules.update({"ustruct": struct, "ubinascii": binascii, "peelcore": peelcore})
    time.ticks_ms = lambda: time.monotonic_ns() // 1_000_000
    time.ticks_us = lambda: time.monotonic_ns() // 1000
    time.ticks_diff = lambda end, start: end - start
    time.sleep_ms = lambda milliseconds: time.sleep(milliseconds / 1000)
    gc.threshold = lambda size: None  # only small heaps need it


if sys.implementation.name == "cpython":
    _add_micropython_names()
else:
    import micropython_ssl

    sys.modules["ssl"] = micropython_ssl
sys.path[0] = ""  # the flash, where a board looks first, instead of the folder of this file

import main
from boards import host

main.FAULT_ROUNDS = 0  # there is no LED to blink with


class VerboseApp(main.app.App):
    """The application, which also prints readings, reports and what waits. They are private: for this console only."""

    def __init__(self, config, core, board, files, root):
        super().__init__(config, core, board, files, root)
        self._given = []
        for place, name in enumerate(config.profile.readings):
            self.sampler._sensors[place] = self._noting(name, self.sampler._sensors[place])
        self.sampler.read = self._reading(self.sampler.read)
        self.outbox.put = self._putting(self.outbox.put)
        self.outbox.sent = self._sending(self.outbox.sent)

    def report(self):
        throttled = self.throttled
        super().report()
        if self.throttled > throttled and self._starved:
            print(f"peel: report {self.ledger.next_number} waits until the gateway approves a batch of numbers")
        elif self.throttled > throttled:
            seconds = max(0, self._due - self._clock.now()) / 1000
            print(f"peel: report {self.ledger.next_number} waits {seconds:.1f} s for the quota")

    def _noting(self, name, sensor):
        def read():
            value = sensor()
            self._given.append(f"{name} {value!r}")
            return value

        return read

    def _reading(self, read):
        def read_and_print(number):
            self._given = []
            readings = read(number)
            print("peel: readings:", ", ".join(self._given) or "none")
            if self.sampler.failing:
                print("peel: failing sensors:", self.sampler.failing)
            return readings

        return read_and_print

    def _putting(self, put):
        def put_and_print(number, frame):
            put(number, frame)
            print(f"peel: report {number} answers {self._question(frame)}: {len(frame)} bytes, {frame.hex()}")

        return put_and_print

    def _sending(self, sent):
        def print_and_note(numbers):
            named = ", ".join([str(number) for number in numbers])
            print(f"peel: sent {named}; {self.outbox.unconfirmed} sent before wait for a receipt")
            sent(numbers)

        return print_and_note

    def _question(self, frame):
        """Return the question that a report answers (SPEC section 7)."""
        profile = self._config.profile
        word = int.from_bytes(self._core.stream(self._config.index_key.reveal(), frame[:16], 4), "little")
        slot = word * sum([each.questions * each.weight for each in profile.attributes]) >> 32
        for attribute in profile.attributes:
            question = slot // attribute.weight
            if question < attribute.questions:
                break
            slot -= attribute.questions * attribute.weight
        if attribute.kind in ("above", "ladder"):
            return f"{attribute.name} > {attribute.thresholds[question]}"
        return attribute.name


if "--verbose" in sys.argv:
    main.app.App = VerboseApp


def run() -> None:
    """Boot, and boot again after each deep sleep."""
    while True:
        try:
            main.main()
        except host.Woken:
            continue
        except KeyboardInterrupt:
            sys.exit(0)
        sys.exit(1)  # the application has printed why


run()
