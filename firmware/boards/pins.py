# SPDX-License-Identifier: MIT
"""What sensors are connected to: the same on every board that has pins, and how one without says so."""

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
        """An input: 1 while it is high; with `latch` also when it was, at any time since it was last asked."""
        import machine

        opened = machine.Pin(pin, machine.Pin.IN)
        if pull != "none":
            opened.init(machine.Pin.IN, machine.Pin.PULL_UP if pull == "up" else machine.Pin.PULL_DOWN)
        return _Input(opened, machine.Pin.IRQ_RISING if latch else 0)


class _Input:
    """An input that remembers."""

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
    """A board without any: the emulator's, or a computer."""

    def adc(self, pin: int) -> int:
        """There is no converter."""
        raise _lacking("adc")

    def internal_temperature(self) -> float:
        """There is no thermometer."""
        raise _lacking("internal temperature")

    def i2c(self, bus: int, sda: int, scl: int) -> "Bus":
        """There is no bus."""
        raise _lacking("i2c")

    def one_wire(self, pin: int) -> "OneWire":
        """There is no bus."""
        raise _lacking("1-Wire bus")

    def digital(self, pin: int, pull: str, latch: bool) -> "Callable[[], int]":
        """There is no input."""
        raise _lacking("digital input")


def _lacking(what: str) -> BoardError:
    return BoardError("sensors: this board has no " + what + ", use a trace or a callable")
