# SPDX-License-Identifier: MIT
"""From a UF2 file to reports at the broker, on the emulated RP2040: what an owner of a Pico does, with the same commands."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner
from flash_bundle import DEVICE, WIDTH, write_bundle

from peel_core.frame import NUMBER, split
from peel_hil.duts.pico import PicoDut
from peel_hil.emulators.pico import FLASH_BYTES
from peel_hil.listener import Listener
from peel_tools.boards.firmware import build_firmware
from peel_tools.boards.table import find_board
from peel_tools.commands.firmware import provision_device
from peel_tools.flashing.image import read_uf2
from peel_tools.servers.broker import Broker

REPORTS = 5
SENSORS = {"a": {"kind": "internal_temperature"}, "b": {"kind": "adc", "pin": 26, "scale": 100}}
_FLASH_START = 0x10000000


def flash_from_uf2(image: Path) -> bytes:
    """The flash of a new Pico after this file was copied to its boot drive, as the boot ROM would load it."""
    uf2 = read_uf2(image)
    assert uf2.family == find_board("pico").boot_drives[0].family
    flash = bytearray(b"\xff" * FLASH_BYTES)
    for address, data in uf2.blocks.items():
        flash[address - _FLASH_START : address - _FLASH_START + len(data)] = data
    return bytes(flash)


def test_a_pico_from_uf2_to_reports(tmp_path: Path) -> None:
    write_bundle(tmp_path, quota=1000, period=60, board="pico", sensors=SENSORS, interval_s=0.1)
    with Broker() as broker:
        endpoint = (broker.host, broker.port)
        with PicoDut(tmp_path / "board", endpoint) as pico, Listener(endpoint, f"peel/v1/lab/+/{DEVICE}/#") as listener:
            pico.folder.mkdir()
            pico.flash.write_bytes(flash_from_uf2(build_firmware("pico").uf2))
            pico.start()
            words = [DEVICE, "--fleet", str(tmp_path), "--board", "pico", "--port", pico.hand_over()]
            answer = CliRunner().invoke(provision_device, words)
            assert answer.exit_code == 0, answer.output
            assert "found Raspberry Pi Pico with RP2040, MicroPython 1.25.0, native code: armv6m" in answer.output
            assert "peel: selftest passed" in answer.output
            assert "00112233" not in answer.output

            _, birth = listener.next(timeout=90)
            assert json.loads(birth)["board"] == "pico"
            numbers: list[int] = []
            while len(numbers) < REPORTS:
                _, payload = listener.next(timeout=60)
                numbers += [NUMBER.of(frame) for frame in split(payload, WIDTH)]
            assert numbers == list(range(1, len(numbers) + 1))
