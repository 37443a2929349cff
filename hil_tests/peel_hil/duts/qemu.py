# SPDX-License-Identifier: MIT
"""Boards in QEMU."""

from __future__ import annotations

from peel_hil.duts.base import DEVICE_CODE, Dut
from peel_hil.emulators.images import board_image
from peel_tools.boards.build_tools import require

__all__ = ["M4Dut", "MicrobitDut", "Mps2Dut", "Rv32Dut"]


class _QemuDut(Dut):
    """A QEMU board whose console is its first UART."""

    system: str
    machine: str
    extra: tuple[str, ...] = ()
    file_system = "ram_files.py"

    def command(self) -> list[str]:
        program = f"qemu-system-{self.system}"
        require(program)
        image = board_image(self.name).elf
        common = [
            program,
            "-machine",
            self.machine,
            "-nographic",
            "-monitor",
            "none",
            "-semihosting",
            "-serial",
            "stdio",
        ]
        return [*common, *self.extra, "-kernel", str(image)]

    def boot(self) -> None:
        self.console.expect(rb">>> ", self.boot_timeout)
        self.console.enter_raw()
        self.exec((DEVICE_CODE / self.file_system).read_text())


class Mps2Dut(_QemuDut):
    """mps2-an385, a Cortex-M3. Its file system is in the board's 16 MiB of external RAM, a file shared with the host, so that killing
    QEMU leaves exactly what had been written. Its second UART is a TCP connection, its third the host's randomness."""

    name = "mps2"
    processor = "Cortex-M3"
    system = "arm"
    machine = "mps2-an385,memory-backend=disk"
    native_architectures = ("armv6m", "armv7m")
    file_system = "psram_disk.py"

    def command(self) -> list[str]:
        disk = self.folder / "psram.bin"
        memory = f"memory-backend-file,id=disk,size=16M,mem-path={disk},share=on"
        words = [*super().command(), "-object", memory]
        link = "tcp:{}:{},reconnect=1,nodelay=on".format(*self.link) if self.link else "null"
        return [
            *words,
            "-serial",
            link,
            "-chardev",
            "serial,id=host_randomness,path=/dev/urandom",
            "-serial",
            "chardev:host_randomness",
        ]


class M4Dut(_QemuDut):
    """mps2-an386, a Cortex-M4F."""

    name = "m4"
    processor = "Cortex-M4F"
    system = "arm"
    machine = "mps2-an386"
    native_architectures = ("armv7emsp",)


class MicrobitDut(_QemuDut):
    """micro:bit, a Cortex-M0, with the flash and RAM that MicroPython's QEMU port requires."""

    name = "microbit"
    processor = "Cortex-M0"
    system = "arm"
    machine = "microbit"
    extra = ("-global", "nrf51-soc.flash-size=1048576", "-global", "nrf51-soc.sram-size=262144")
    native_architectures = ("armv6m",)


class Rv32Dut(_QemuDut):
    """RISC-V virt, 32 bits."""

    name = "rv32"
    processor = "32-bit RISC-V"
    system = "riscv32"
    machine = "virt"
    extra = ("-bios", "none")
    native_architectures = ("rv32imc",)
