# SPDX-License-Identifier: MIT
"""The emulated boards: the functions that the other tests rely on."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from peel_hil.duts import Dut, DutError

OpenDut = Callable[..., Dut]

CONTENT = bytes(range(256)) * 3

# The second UART of each board that has one, driven as in the firmware's board files.
SEND_AND_RECEIVE = {
    "mps2": """
import machine
BASE = 0x40005000
machine.mem32[BASE + 0x10] = 16
machine.mem32[BASE + 8] = 3
def send(data):
    for byte in data:
        while machine.mem32[BASE + 4] & 1: pass
        machine.mem32[BASE] = byte
def receive(count):
    data = bytearray()
    while len(data) < count:
        if machine.mem32[BASE + 4] & 2: data.append(machine.mem32[BASE] & 255)
    return bytes(data)
""",
    "pico": """
import machine
uart = machine.UART(1, baudrate=921600, tx=machine.Pin(4), rx=machine.Pin(5), rxbuf=2048)
send = uart.write
def receive(count):
    data = b""
    while len(data) < count: data += uart.read(count - len(data)) or b""
    return data
""",
}


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    """A server that returns its input in capitals, one connection after the other."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                while data := connection.recv(4096):
                    if b"!" in data:
                        break  # hang up
                    connection.sendall(data.upper())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield server.getsockname()
    server.close()


def test_exec_prints_and_raises(dut: Dut) -> None:
    assert dut.exec("print(6 * 7)") == "42\n"
    with pytest.raises(DutError, match="ZeroDivisionError"):
        dut.exec("1 / 0")
    assert dut.exec("print('still here')") == "still here\n"


def test_files_are_what_was_put(dut: Dut) -> None:
    dut.put("content.bin", CONTENT)
    assert dut.get("content.bin") == CONTENT


@pytest.mark.boards("mps2", "pico")
def test_the_plug_can_be_pulled(open_board: OpenDut) -> None:
    dut = open_board()
    dut.put("content.bin", CONTENT)
    dut.begin(
        "number = 0\nwhile True:\n number += 1\n with open('n', 'w') as f: f.write(str(number))\n print('wrote', number)"
    )
    written = int(dut.expect(r"wrote (\d\d)\r?\n", 60)[1])
    dut.kill()
    assert not dut.running
    dut.start()
    assert dut.get("content.bin") == CONTENT
    assert int(dut.get("n")) >= written


@pytest.mark.boards("mps2", "pico")
def test_the_second_uart_is_a_connection(open_board: OpenDut, echo: tuple[str, int]) -> None:
    dut = open_board(link=echo)
    dut.exec(SEND_AND_RECEIVE[dut.name])
    message = "".join(chr(97 + number % 26) for number in range(600))
    assert (
        dut.exec(f"send({message.encode()!r}[:300])\nprint(receive(300) == {message.upper().encode()!r}[:300])")
        == "True\n"
    )
    dut.exec("send(b'!')")  # the other side closes; the next byte after a pause connects again
    dut.exec("import time\ntime.sleep_ms(2500)")
    assert dut.exec("send(b'again')\nprint(receive(5))", timeout=20) == "b'AGAIN'\n"


@pytest.mark.boards("pico")
def test_the_pico_resets_itself(dut: Dut) -> None:
    dut.put("kept", b"yes")
    dut.console.write(b"import machine\nmachine.reset()\x04")
    dut.boot()
    assert dut.get("kept") == b"yes"
