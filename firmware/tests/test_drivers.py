# SPDX-License-Identifier: MIT
"""Drivers with emulated devices, register by register, and as sensors of a bundle."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
from drivers import bme280, ds18b20
from drivers.bme280 import Bme280
from drivers.ds18b20 import Ds18b20
from drivers.measured import crc8
from drivers.scd4x import Scd4x
from drivers.sht3x import Sht3x
from emulated_bus import BenchBoard, Bme280Chip, Ds18b20Bus, EmulatedBus, Scd4xChip, Sht3xChip

import host_board
from host_board import CATEGORY_PROFILE, config
from peel_device.errors import ConfigError
from peel_device.kinds import to_q15

# The example of Bosch's datasheet for the same temperature and pressure cells (BST-BMP280-DS001, section 3.12).
BOSCH = {
    "T1": 27504, "T2": 26435, "T3": -1000, "P1": 36477, "P2": -10685, "P3": 3024, "P4": 2855, "P5": 140, "P6": -7,
    "P7": 15500, "P8": -14600, "P9": 6000, "H1": 75, "H2": 362, "H3": 0, "H4": 313, "H5": 50, "H6": 30,
}  # fmt: skip
BOSCH_RAW = {"T": 519888, "P": 415148, "H": 28000}
WARM, HALF = 0x6666, 0x8000


def bench(*chips: Any) -> tuple[EmulatedBus, Any]:
    bus = EmulatedBus(*chips)
    return bus, bus.wait


# ---- checksums, as the datasheets print them ----


def test_checksum_of_sensirion() -> None:
    assert crc8(b"\xbe\xef") == 0x92


def test_checksum_of_one_wire() -> None:
    assert ds18b20.crc8(bytes.fromhex("021cb801000000")) == 0xA2  # Maxim's application note 27


# ---- SHT3x ----


def test_sht3x_measures_once_for_both_quantities() -> None:
    chip = Sht3xChip(WARM, HALF)
    sensor = Sht3x(*bench(chip))
    assert sensor.read("temperature") == pytest.approx(25.0, abs=0.01)
    assert sensor.read("humidity") == pytest.approx(50.0, abs=0.01)
    assert chip.measurements == 1
    sensor.read("temperature")
    assert chip.measurements == 2


def test_a_wrong_checksum_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    bus, wait = bench(Sht3xChip(WARM, HALF))
    monkeypatch.setattr(bus, "readfrom", lambda address, n: b"\x66\x66\x00\x80\x00\x00"[:n])
    with pytest.raises(OSError, match="checksum"):
        Sht3x(bus, wait).read("temperature")


def test_a_failed_measurement_leaves_nothing_of_the_former_one(monkeypatch: pytest.MonkeyPatch) -> None:
    bus, wait = bench(Sht3xChip(WARM, HALF))
    sensor = Sht3x(bus, wait)
    sensor.read("temperature")
    monkeypatch.setattr(bus, "readfrom", lambda address, n: bytes(n))
    with pytest.raises(OSError, match="checksum"):
        sensor.read("temperature")
    with pytest.raises(OSError, match="checksum"):
        sensor.read("humidity")


@pytest.mark.parametrize("driver", [Sht3x, Scd4x, Bme280])
def test_a_device_that_is_not_there(driver: Any) -> None:
    with pytest.raises(OSError, match="EIO"):
        driver(*bench()).read("temperature")


# ---- SCD4x ----


@pytest.mark.parametrize("measuring", [False, True], ids=["from power", "after a reset of the board"])
def test_scd4x(measuring: bool) -> None:
    chip = Scd4xChip(667, WARM, HALF, measuring=measuring)
    bus, wait = bench(chip)
    sensor = Scd4x(bus, wait)
    assert sensor.read("co2") == 667
    assert sensor.read("humidity") == pytest.approx(50.0, abs=0.01)
    assert bus.now >= 5000
    chip.words[0] = 1200
    assert sensor.read("co2") == 1200
    assert chip.starts == 1


def test_an_scd4x_that_never_gets_ready_is_started_again() -> None:
    chip = Scd4xChip(667, WARM, HALF)
    sensor = Scd4x(*bench(chip))
    chip.dead = True
    with pytest.raises(OSError, match="no measurement"):
        sensor.read("co2")
    chip.dead = False
    assert sensor.read("co2") == 667
    assert chip.starts == 2


# ---- BME280 ----


def test_bme280_gives_the_datasheets_example() -> None:
    sensor = Bme280(*bench(Bme280Chip(BOSCH, BOSCH_RAW)))
    assert sensor.read("temperature") == 25.08
    assert sensor.read("pressure") == pytest.approx(1006.5327, abs=2e-4)  # the example is in floating point


def humidity_in_floats(raw: int, fine: float, h: dict[str, int]) -> float:
    """Return the humidity by the datasheet's other formula, in double precision (section 8.1)."""
    x = fine - 76800.0
    y = (raw - (h["H4"] * 64.0 + h["H5"] / 16384.0 * x)) * (
        h["H2"] / 65536.0 * (1.0 + h["H6"] / 67108864.0 * x * (1.0 + h["H3"] / 67108864.0 * x))
    )
    y *= 1.0 - h["H1"] * y / 524288.0
    return min(max(y, 0.0), 100.0)


@pytest.mark.parametrize("raw", [15000, 22000, 28000, 34000, 65535])
def test_bme280_humidity_is_that_of_both_formulas(raw: int) -> None:
    sensor = Bme280(*bench(Bme280Chip(BOSCH, {**BOSCH_RAW, "H": raw})))
    fine = bme280.fine_temperature(BOSCH_RAW["T"], [BOSCH["T1"], BOSCH["T2"], BOSCH["T3"]])
    assert sensor.read("humidity") == pytest.approx(humidity_in_floats(raw, fine, BOSCH), abs=0.05)


def test_bme280_below_zero() -> None:
    sensor = Bme280(*bench(Bme280Chip(BOSCH, {**BOSCH_RAW, "T": 350000})))
    assert sensor.read("temperature") == pytest.approx(-28.47, abs=0.01)


def test_a_bmp280_is_told_apart() -> None:
    with pytest.raises(OSError, match="BMP280"):
        Bme280(*bench(Bme280Chip(BOSCH, BOSCH_RAW, chip=0x58))).read("humidity")


def test_a_bme280_without_calibration() -> None:
    with pytest.raises(OSError, match="calibration"):
        Bme280(*bench(Bme280Chip(dict.fromkeys(BOSCH, 0), BOSCH_RAW))).read("pressure")


# ---- DS18B20: the table of its datasheet ----


@pytest.mark.parametrize(
    ("raw", "celsius"), [(0x07D0, 125), (0x0550, 85), (0x0191, 25.0625), (0, 0), (0xFFF8, -0.5), (0xFC90, -55)]
)
def test_ds18b20(raw: int, celsius: float) -> None:
    bus = Ds18b20Bus(raw)
    assert Ds18b20(bus, bus.wait).temperature() == celsius
    assert Ds18b20(bus, bus.wait, bus.code).temperature() == celsius


def test_a_ds18b20_that_lost_its_power_is_no_85_degrees() -> None:
    bus = Ds18b20Bus(0x0191)
    bus.powered = False
    with pytest.raises(OSError, match="lost power"):
        Ds18b20(bus, bus.wait).temperature()


def test_a_one_wire_bus_without_anybody() -> None:
    bus = Ds18b20Bus(0)
    bus.present = False
    with pytest.raises(OSError, match="no device answers"):
        Ds18b20(bus, bus.wait).temperature()


def test_another_device_on_the_bus_is_not_read() -> None:
    bus = Ds18b20Bus(0x0191, code=bytes.fromhex("28ff641e821603e2"))
    other = bytes.fromhex("2801020304050600")[:7]
    with pytest.raises(OSError, match="checksum"):
        Ds18b20(bus, bus.wait, other + bytes([ds18b20.crc8(other)])).temperature()


def test_a_line_that_is_held_low() -> None:
    bus = Ds18b20Bus(0)
    bus.readbyte = lambda: 0  # type: ignore[method-assign]  # of this bus alone
    with pytest.raises(OSError, match="checksum"):
        Ds18b20(bus, bus.wait).temperature()


# ---- as sensors of a bundle ----

I2C = {"kind": "i2c", "bus": 0, "sda": 4, "scl": 5}


def test_sensors_of_one_device_share_its_measurement() -> None:
    chip = Bme280Chip(BOSCH, BOSCH_RAW)
    sensors = {
        "temperature": {**I2C, "device": "bme280_temperature"},
        "soil": {**I2C, "device": "bme280_pressure", "scale": 0.001},
    }
    sampler = host_board.sampler(config(sensors=sensors), BenchBoard(EmulatedBus(chip)))
    assert sampler.read(1) == [to_q15(25.08, -10, 50), to_q15(1.0065327, 0, 1)]
    sampler.read(1)
    assert chip.measurements == 2


def test_devices_at_other_addresses_are_devices_of_their_own() -> None:
    near, far = Sht3xChip(WARM, HALF), Sht3xChip(0, 0)
    far.address = 0x45
    sensors = {
        "temperature": {**I2C, "device": "sht3x_temperature"},
        "soil": {**I2C, "device": "sht3x_humidity", "address": 0x45},
    }
    assert host_board.sampler(config(sensors=sensors), BenchBoard(EmulatedBus(near, far))).read(1) == [
        to_q15(25.0, -10, 50),
        to_q15(0, 0, 1),
    ]


def test_a_thermometer_by_its_code() -> None:
    sensors = {
        "temperature": {"kind": "ds18b20", "pin": 22, "code": "28ff641e821603e2"},
        "soil": {"kind": "trace", "values": [1]},
    }
    assert host_board.sampler(config(sensors=sensors), BenchBoard(wire=Ds18b20Bus(0x0191))).read(1) == [
        to_q15(25.0625, -10, 50),
        to_q15(1, 0, 1),
    ]


@pytest.mark.parametrize("code", ["28ff", "28ff641e821603eg", "28ff641e821603e3", 7])
def test_a_code_that_is_none(code: Any) -> None:
    with pytest.raises(ConfigError, match="code"):
        config(sensors={"temperature": {"kind": "ds18b20", "pin": 22, "code": code}, "soil": {"kind": "adc", "pin": 1}})


def test_a_contact_is_a_category() -> None:
    door = {"kind": "digital", "pin": 15, "pull": "up", "low": "off", "high": "heat"}
    board = BenchBoard(level=1)
    sampler = host_board.sampler(config(profile=CATEGORY_PROFILE, sensors={"mode": door}), board)
    assert sampler.read(1) == [1]
    board.level = 0
    assert sampler.read(1) == [0]
    assert board.opened == [(15, "up", False)]


class FakePin:
    """A pin of `machine` that the test sets."""

    IN, PULL_UP, PULL_DOWN, IRQ_RISING = 0, 1, 2, 4

    def __init__(self, pin: int, mode: int) -> None:
        self.level, self.handler, self.pull = 0, None, 0
        FakePin.made = self

    def init(self, mode: int, pull: int) -> None:
        self.pull = pull

    made: FakePin

    def irq(self, handler: Any, trigger: int) -> None:
        self.handler = handler

    def value(self) -> int:
        return self.level


def test_motion_between_two_reports_is_remembered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = ModuleType("machine")
    vars(machine)["Pin"] = FakePin
    monkeypatch.setitem(sys.modules, "machine", machine)
    from boards.pins import Pins

    motion = Pins().digital(16, "down", True)
    assert motion() == 0
    assert FakePin.made.handler is not None
    FakePin.made.handler(FakePin.made)
    assert [motion(), motion()] == [1, 0]
    FakePin.made.level = 1
    assert [motion(), motion()] == [1, 1]
    assert FakePin.made.pull == FakePin.PULL_DOWN
