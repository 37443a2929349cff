# SPDX-License-Identifier: MIT
"""Runs on MicroPython, in a device's flash: repeated TLS connections on a small heap, from which Mbed TLS allocates as on a board.

Usage: micropython -X heapsize=N tls_on_micropython.py RUNTIME TIMES. Prints a line per connection: the largest free block
of the heap afterwards, in bytes, and the link's faults so far. Every other connection is cut off, the others end normally.
"""

import sys

from heap_on_micropython import largest_free

sys.path[0] = ""  # the flash, in place of this file's folder
import main

sys.path.append(sys.argv[1])
import micropython_ssl

sys.modules["ssl"] = micropython_ssl

import peel_load
from peel_device import app
from peel_device.storage import FlashFiles


def run(times):
    files = FlashFiles()
    settings = main.read_bundle(files)
    device = app.App(settings, peel_load.load(), main.find_board(settings.board), files, main.ROOT)
    device.start()
    for connection in range(times):
        device.step()
        if not device.link.up:
            raise SystemExit("connection %d failed" % connection)
        if connection % 2:
            device.link.stop()
        else:
            device.link._fail(OSError("cut off"))
            device.link._retry_at = 0
        print("largest", largest_free(), device.link.faults)


run(int(sys.argv[2]))
