// SPDX-License-Identifier: MIT
// The host's end of the board's USB serial port.
import { USBCDC } from 'rp2040js';

const FIFO_LIMIT = 256;

export class Console {
  constructor(machine, onData) {
    const usb = machine.chip.usbCtrl;
    this.cdc = new USBCDC(usb);
    this.usb = usb;
    this.pending = []; // bytes for the board
    this.wanted = 0; // size of the transfer that the board waits for
    this.cdc.onSerialData = (data) => onData(Buffer.from(data));
    this.cdc.onDeviceConnected = () => this.send(Buffer.from('\r'));
    // rp2040js answers each poll at once, with nothing if need be: an interrupt storm. Answer when there is something, as a host does.
    usb.onEndpointRead = (endpoint, size) => {
      if (endpoint !== this.cdc.outEndpoint) return;
      this.wanted = size;
      this.flush();
    };
  }

  send(data) {
    for (const byte of data) this.pending.push(byte);
    this.flush();
  }

  flush() {
    if (!this.wanted || !this.pending.length) return;
    const data = Uint8Array.from(this.pending.splice(0, Math.min(this.wanted, FIFO_LIMIT)));
    this.wanted = 0;
    this.usb.endpointReadDone(this.cdc.outEndpoint, data);
  }
}
