# SPDX-License-Identifier: MIT
"""MicroPython's raw REPL for the unix port, which lacks it: code up to Ctrl-D, then OK, output, Ctrl-D, traceback, Ctrl-D, >."""

import io
import sys

_scope = {"__name__": "__main__"}


def _run(code):
    sys.stdout.write("OK")
    trace = ""
    try:
        exec(code, _scope)
    except SystemExit:
        raise
    except BaseException as error:
        text = io.StringIO()
        sys.print_exception(error, text)
        trace = text.getvalue()
    sys.stdout.write("\x04" + trace + "\x04>")


def serve():
    code = bytearray()
    while True:
        byte = sys.stdin.buffer.read(1)
        if not byte:
            return
        if byte == b"\x01":
            sys.stdout.write("raw REPL; CTRL-B to exit\r\n>")
            code = bytearray()
        elif byte == b"\x04":
            text, code = code.decode(), bytearray()
            _run(text)
        elif byte != b"\x03":
            code += byte


serve()
