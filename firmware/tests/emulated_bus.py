# SPDX-License-Identifier: MIT
"""Sensors on emulated buses: registers, commands, checksums and timing follow the datasheets. Time passes only in `wait`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from drivers.ds18b20 import crc8 as one_wire_crc
from drivers.measured import crc8

from host_board import HostBoard
from peel_device.interfaces import Bus, OneWire


class Timed:
    """A clock that `wait` advances."""

    def __init__(self) -> None:
        self.now = 0

    def wait(self, milliseconds: int) -> None:
        self.now += milliseconds


class Chip(Protocol):
    """A device on an I2C bus."""

    address: int

    def write(self, data: bytes, now: int) -> None: ...

    def read(self, count: int, now: int) -> bytes: ...


class EmulatedBus(Timed):
    """An I2C bus with some devices. Other addresses do not answer."""

    def __init__(self, *chips: Chip) -> None:
        super().__init__()
        self._chips = {chip.address: chip for chip in chips}

    def _chip(self, address: int) -> Chip:
        if address not in self._chips:
            raise OSError(5, "EIO")
        return self._chips[address]

    def writeto(self, address: int, data: bytes, /) -> int:
        self._chip(address).write(data, self.now)
        return len(data)

    def readfrom(self, address: int, n: int, /) -> bytes:
        return self._chip(address).read(n, self.now)


def checked(*words: int) -> bytes:
    """Return words with Sensirion's checksums."""
    return b"".join((pair := word.to_bytes(2, "big")) + bytes([crc8(pair)]) for word in words)


class Sht3xChip:
    """Takes one command, and answers 15 ms later."""

    address = 0x44

    def __init__(self, temperature: int, humidity: int) -> None:
        self.words = [temperature, humidity]
        self.measurements = 0
        self._ready = -1

    def write(self, data: bytes, now: int) -> None:
        if data != b"\x24\x00":
            raise OSError(5, "EIO")
        self.measurements += 1
        self._ready = now + 15

    def read(self, count: int, now: int) -> bytes:
        if not 0 <= self._ready <= now:
            raise OSError(5, "EIO")
        return checked(*self.words)[:count]


class Scd4xChip:
    """Measures every 5 s once started. While it measures, it refuses a start."""

    address = 0x62

    def __init__(self, co2: int, temperature: int, humidity: int, *, measuring: bool = False) -> None:
        self.words = [co2, temperature, humidity]
        self.starts = 0
        self.dead = False
        self._next: int | None = 0 if measuring else None
        self._busy_until = 0
        self._answer = b""

    def write(self, data: bytes, now: int) -> None:
        if now < self._busy_until:
            raise OSError(5, "EIO")
        command = int.from_bytes(data, "big")
        if command == 0x3F86:
            self._next, self._busy_until = None, now + 500
        elif command == 0x21B1 and self._next is None:
            self.starts += 1
            self._next = now + 5000
        elif command == 0xE4B8:
            self._answer = checked(0x8006 if self._is_ready(now) else 0x8000)
        elif command == 0xEC05 and self._is_ready(now):
            self._answer, self._next = checked(*self.words), now + 5000
        else:
            raise OSError(5, "EIO")

    def _is_ready(self, now: int) -> bool:
        return not self.dead and self._next is not None and now >= self._next

    def read(self, count: int, now: int) -> bytes:
        assert len(self._answer) == count
        return self._answer


class Bme280Chip:
    """A forced measurement takes 9 ms, then its results are in the data registers."""

    address = 0x76

    def __init__(self, calibration: dict[str, int], raw: dict[str, int], chip: int = 0x60) -> None:
        self.registers = bytearray(256)
        self.registers[0xD0] = chip
        self.measurements = 0
        self._raw = raw
        self._pointer = 0
        self._ready: int | None = None
        self._calibrate(calibration)
        self.registers[0xF7:0xFF] = b"\x80\x00\x00\x80\x00\x00\x80\x00"  # the values before a measurement

    def _calibrate(self, c: dict[str, int]) -> None:
        names = ["T1", "T2", "T3", *(f"P{i}" for i in range(1, 10))]
        for at, name in enumerate(names):
            self.registers[0x88 + 2 * at : 0x8A + 2 * at] = (c[name] & 0xFFFF).to_bytes(2, "little")
        self.registers[0xA1] = c["H1"]
        self.registers[0xE1:0xE3] = (c["H2"] & 0xFFFF).to_bytes(2, "little")
        self.registers[0xE3] = c["H3"]
        self.registers[0xE4] = c["H4"] >> 4 & 0xFF
        self.registers[0xE5] = c["H4"] & 15 | (c["H5"] & 15) << 4
        self.registers[0xE6] = c["H5"] >> 4 & 0xFF
        self.registers[0xE7] = c["H6"] & 0xFF

    def write(self, data: bytes, now: int) -> None:
        self._pointer = data[0]
        if len(data) == 2:
            self.registers[data[0]] = data[1]
            if data[0] == 0xF4 and data[1] & 3 in (1, 2):
                self.measurements += 1
                self._ready = now + 9

    def read(self, count: int, now: int) -> bytes:
        if self._ready is not None and now >= self._ready:
            self._finish()
        self.registers[0xF3] = 0 if self._ready is None else 8
        return bytes(self.registers[self._pointer : self._pointer + count])

    def _finish(self) -> None:
        self._ready = None
        self.registers[0xF4] &= 0xFC  # back to sleep
        self.registers[0xF7:0xFA] = (self._raw["P"] << 4).to_bytes(3, "big")
        self.registers[0xFA:0xFD] = (self._raw["T"] << 4).to_bytes(3, "big")
        if self.registers[0xF2] & 7:
            self.registers[0xFD:0xFF] = self._raw["H"].to_bytes(2, "big")


class Ds18b20Bus(Timed):
    """A 1-Wire bus with one thermometer, byte by byte."""

    def __init__(self, raw: int, code: bytes = bytes.fromhex("28ff641e821603e2")) -> None:
        super().__init__()
        self.raw = raw
        self.code = code
        self.present = True
        self.powered = True
        self._expects: list[int] = []
        self._sent: list[int] = []
        self._converted: int | None = None

    def reset(self) -> bool:
        self._expects, self._sent = [], []
        return self.present

    def writebyte(self, value: int, /) -> None:
        self._expects.append(value)
        selected = [0xCC] if self._expects[0] == 0xCC else [0x55, *self.code]
        if self._expects == [*selected, 0x44]:
            self._converted = self.now + 750
        elif self._expects == [*selected, 0xBE]:
            self._sent = list(self._scratchpad())

    def _scratchpad(self) -> bytes:
        done = self.powered and self._converted is not None and self.now >= self._converted
        raw, remain = (self.raw, 0x10 - (self.raw & 15)) if done else (85 * 16, 0x0C)
        pad = (raw & 0xFFFF).to_bytes(2, "little") + b"\x4b\x46\x7f\xff" + bytes([remain, 0x10])
        return pad + bytes([one_wire_crc(pad)])

    def readbyte(self) -> int:
        return self._sent.pop(0) if self._sent else 0xFF


class BenchBoard(HostBoard):
    """A host board with emulated buses."""

    def __init__(self, bus: EmulatedBus | None = None, wire: Ds18b20Bus | None = None, level: int = 0) -> None:
        super().__init__()
        self._bus, self._wire, self.level = bus, wire, level
        self.opened: list[tuple[object, ...]] = []

    def pause(self, milliseconds: int) -> None:
        for timed in (self._bus, self._wire):
            if timed is not None:
                timed.wait(milliseconds)

    def i2c(self, bus: int, sda: int, scl: int) -> Bus:
        assert self._bus is not None
        return self._bus

    def one_wire(self, pin: int) -> OneWire:
        assert self._wire is not None
        return self._wire

    def digital(self, pin: int, pull: str, latch: bool) -> Callable[[], int]:
        self.opened.append((pin, pull, latch))
        return lambda: self.level
