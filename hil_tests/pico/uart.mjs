// SPDX-License-Identifier: MIT
// The transmitting half of a PL011. rp2040js keeps its interrupt asserted for ever, so that MicroPython's machine.UART never leaves the
// handler; this gives an instance a FIFO that empties at the baud rate, on the emulated clock, and an interrupt that can be cleared.

const DATA_REGISTER = 0;
const TX_INTERRUPT = 1 << 5;
const FIFO_DEPTH = 32;
const TRIGGER_LEVEL = 16;
const BITS_PER_BYTE = 10;
const FLAG = { busy: 1 << 3, rxEmpty: 1 << 4, txFull: 1 << 5, rxFull: 1 << 6, txEmpty: 1 << 7 };

const byteNanos = (uart) => (BITS_PER_BYTE * 1e9) / (Number.isFinite(uart.baudRate) && uart.baudRate > 0 ? uart.baudRate : 115200);

export function repairTransmitter(uart, clock) {
  const queue = [];
  let sending = false;

  uart.checkInterrupts = () => uart.rp2040.setInterrupt(uart.irq, (uart.interruptStatus & uart.interruptMask) !== 0);

  const shiftedOut = clock.createAlarm(() => {
    uart.onByte?.(queue.shift());
    sending = queue.length > 0;
    if (sending) shiftedOut.schedule(byteNanos(uart));
    if (queue.length <= TRIGGER_LEVEL) {
      uart.interruptStatus |= TX_INTERRUPT;
      uart.checkInterrupts();
    }
  });

  const writeRegister = uart.writeUint32.bind(uart);
  uart.writeUint32 = (offset, value) => {
    if (offset !== DATA_REGISTER) return writeRegister(offset, value);
    if (queue.length < FIFO_DEPTH) queue.push(value & 0xff);
    if (!sending) shiftedOut.schedule(byteNanos(uart));
    sending = true;
  };

  Object.defineProperty(uart, 'flags', {
    get: () =>
      (sending ? FLAG.busy : 0) |
      (queue.length === 0 ? FLAG.txEmpty : 0) |
      (queue.length >= FIFO_DEPTH ? FLAG.txFull : 0) |
      (uart.rxFIFO.empty ? FLAG.rxEmpty : 0) |
      (uart.rxFIFO.full ? FLAG.rxFull : 0),
  });
}

/** Feeds bytes into a UART's receiver at its baud rate, as a real line would. */
export class Line {
  constructor(uart, clock) {
    this.uart = uart;
    this.queue = [];
    this.arrival = clock.createAlarm(() => this.arrive());
    this.busy = false;
  }

  send(bytes) {
    for (const byte of bytes) this.queue.push(byte);
    if (!this.busy && this.queue.length) {
      this.busy = true;
      this.arrival.schedule(byteNanos(this.uart));
    }
  }

  arrive() {
    if (!this.uart.rxFIFO.full) this.uart.feedByte(this.queue.shift());
    this.busy = this.queue.length > 0;
    if (this.busy) this.arrival.schedule(byteNanos(this.uart));
  }
}
