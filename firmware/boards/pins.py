# SPDX-License-Identifier: MIT
"""Pins and buses for sensors: the same code for every board with pins, and BoardError on boards without."""

from peel_device.errors import BoardError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    import machine

    from peel_device.interfaces import Bus, OneWire


class Pins:
    """Buses and inputs of MicroPython's `machine`."""

    def i2c(self, bus: int, sda: int, scl: int) -> "Bus":
        """Open an I2C bus."""
        import machine

        return machine.I2C(bus, sda=machine.Pin(sda), scl=machine.Pin(scl), freq=100000)

    def one_wire(self, pin: int) -> "OneWire":
        """Open a 1-Wire bus."""
        import machine
        import onewire

        return onewire.OneWire(machine.Pin(pin))

    def digital(self, pin: int, pull: str, latch: bool) -> "Callable[[], int]":
        """Open an input that reads 1 while high. With `latch` it also reads 1 if it was high since the last read."""
        import machine

        opened = machine.Pin(pin, machine.Pin.IN)
        if pull != "none":
            opened.init(machine.Pin.IN, machine.Pin.PULL_UP if pull == "up" else machine.Pin.PULL_DOWN)
        return _Input(opened, machine.Pin.IRQ_RISING if latch else 0)


class _Input:
    """An input that can remember a rising edge."""

    def __init__(self, pin: "machine.Pin", trigger: int) -> None:
        self._pin = pin
        self._risen = False
        if trigger:
            pin.irq(self._rise, trigger)

    def _rise(self, pin: "object") -> None:
        self._risen = True

    def __call__(self) -> int:
        seen = self._risen
        self._risen = False
        return 1 if seen or self._pin.value() else 0


class NoPins:
    """A board without pins: the emulator or a computer. Every method raises BoardError."""

    def adc(self, pin: int) -> int:
        raise _lacking("adc")

    def internal_temperature(self) -> float:
        raise _lacking("internal temperature")

    def i2c(self, bus: int, sda: int, scl: int) -> "Bus":
        raise _lacking("i2c")

    def one_wire(self, pin: int) -> "OneWire":
        raise _lacking("1-Wire bus")

    def digital(self, pin: int, pull: str, latch: bool) -> "Callable[[], int]":
        raise _lacking("digital input")


def _lacking(what: str) -> BoardError:
    return BoardError("sensors: this board has no " + what + ": use a trace or a callable")
