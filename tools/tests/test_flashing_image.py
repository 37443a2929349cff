# SPDX-License-Identifier: MIT
"""UF2 files and ESP32 images are checked before a byte is written."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from click.testing import CliRunner

from peel_tools.boards.table import find_board
from peel_tools.commands.firmware import flash
from peel_tools.flashing import FlashError
from peel_tools.flashing.image import find_volume, flash_esp32, flash_pico, read_uf2

RP2040_FAMILY, RP2350_FAMILY = (drive.family for drive in find_board("pico").boot_drives)
ESP32 = find_board("esp32").serial_loaders[0]


def uf2(path: Path, blocks: int = 3, family: int = RP2040_FAMILY, **wrong: int) -> Path:
    parts = []
    for index in range(blocks):
        head = {"a": 0x0A324655, "b": 0x9E5D5157, "flags": 0x2000, "address": 0x10000000 + 256 * index, "size": 256}
        tail = {"index": index, "total": blocks, "family": family}
        values = {**head, **tail, **(wrong if index == 1 else {})}
        last = values.pop("last", 0x0AB16F30)
        parts.append(struct.pack("<8I", *values.values()) + bytes([index]) * 256 + bytes(220) + struct.pack("<I", last))
    path.write_bytes(b"".join(parts))
    return path


def volume(path: Path, board_id: str = "RPI-RP2") -> Path:
    path.mkdir(parents=True)
    (path / "INFO_UF2.TXT").write_text(f"UF2 Bootloader v3.0\nModel: Raspberry Pi RP2\nBoard-ID: {board_id}\n")
    return path


def test_a_sound_uf2(tmp_path: Path) -> None:
    image = read_uf2(uf2(tmp_path / "f.uf2"))
    assert image.size == 768
    assert image.blocks[0x10000100] == b"\x01" * 256


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"a": 1}, "block 1 is damaged"),
        ({"last": 1}, "block 1 is damaged"),
        ({"size": 477}, "block 1 is damaged"),
        ({"index": 2}, "block 1 says it is 2 of 3"),
        ({"total": 9}, "block 1 says it is 1 of 9"),
        ({"family": 7}, "not for one of the chips RPI-RP2, RP2350"),
    ],
)
def test_a_bad_uf2(tmp_path: Path, wrong: dict[str, int], problem: str) -> None:
    with pytest.raises(FlashError, match=problem):
        read_uf2(uf2(tmp_path / "f.uf2", **wrong))


def test_a_truncated_uf2(tmp_path: Path) -> None:
    path = uf2(tmp_path / "f.uf2")
    path.write_bytes(path.read_bytes()[:-512])
    with pytest.raises(FlashError, match="incomplete"):
        read_uf2(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FlashError, match="not a UF2 file"):
        read_uf2(path)


def test_copying_to_the_boot_volume(tmp_path: Path) -> None:
    image = uf2(tmp_path / "f.uf2")
    drive = volume(tmp_path / "media" / "RPI-RP2")
    said: list[str] = []
    flash_pico(image, [tmp_path / "media"], said.append, dry_run=True)
    assert not (drive / "f.uf2").exists()
    flash_pico(image, [tmp_path / "media"], said.append, dry_run=False)
    assert (drive / "f.uf2").read_bytes() == image.read_bytes()


def test_no_board_in_boot_mode(tmp_path: Path) -> None:
    with pytest.raises(FlashError, match="Hold BOOTSEL"):
        find_volume([tmp_path], RP2040_FAMILY)


def test_another_chip_in_boot_mode(tmp_path: Path) -> None:
    volume(tmp_path / "drive", "RP2350")
    with pytest.raises(FlashError, match="has another chip"):
        find_volume([tmp_path], RP2040_FAMILY)
    assert find_volume([tmp_path], RP2350_FAMILY) == tmp_path / "drive"


def test_an_image_for_something_else(tmp_path: Path) -> None:
    (tmp_path / "f.bin").write_bytes(b"\x7fELF")
    with pytest.raises(FlashError, match="not an ESP32 image"):
        flash_esp32(tmp_path / "f.bin", "/dev/absent", ESP32, print, dry_run=False)


def test_an_unplugged_esp32(tmp_path: Path) -> None:
    """The real esptool, which finds no port."""
    pytest.importorskip("esptool")
    (tmp_path / "f.bin").write_bytes(b"\xe9" + bytes(100))
    with pytest.raises(FlashError, match=r"cannot open /dev/absent"):
        flash_esp32(tmp_path / "f.bin", "/dev/absent", ESP32, print, dry_run=False)


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "f.bin").write_bytes(b"\xe9" + bytes(100))
    words = [str(tmp_path / "f.bin"), "--board", "esp32", "--chip", "esp32c3", "--port", "/dev/absent", "--dry-run"]
    answer = CliRunner().invoke(flash, words)
    assert answer.exit_code == 0
    assert "--chip esp32c3 --port /dev/absent" in answer.output
    assert "write-flash --erase-all 0x0 " in answer.output
    assert CliRunner().invoke(flash, [str(tmp_path / "f.bin"), "--board", "esp32"]).exit_code == 7
