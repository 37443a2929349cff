// SPDX-License-Identifier: MIT
// UART1 as a TCP connection: dialled with the first byte the firmware sends, dialled again after a cut.
import net from 'node:net';
import { Line } from './uart.mjs';

// After a cut the rest of a broken packet may still come out of the UART. It must not begin the next connection.
const QUIET_NANOS = 20e6;

export class Link {
  constructor(machine, host, port) {
    this.address = { host, port };
    this.clock = machine.chip.clock;
    this.line = new Line(machine.chip.uart[1], this.clock);
    this.socket = null;
    this.lastByteAt = -Infinity;
    machine.chip.uart[1].onByte = (byte) => this.transmit(byte);
  }

  transmit(byte) {
    const quiet = this.clock.nanos - this.lastByteAt;
    this.lastByteAt = this.clock.nanos;
    if (!this.socket && quiet >= QUIET_NANOS) this.dial();
    this.socket?.write(Buffer.of(byte));
  }

  dial() {
    const socket = net.connect(this.address);
    socket.setNoDelay(true);
    socket.on('data', (data) => this.socket === socket && this.line.send(data));
    socket.on('error', () => {}); // 'close' follows
    socket.on('close', () => {
      if (this.socket === socket) this.socket = null;
    });
    this.socket = socket;
  }

  close() {
    this.socket?.destroy();
    this.socket = null;
  }
}
