// SPDX-License-Identifier: MIT
// Counts the cycles and the stack of every call of given functions, by watching the program counter. Interrupts do not count.
import fs from 'node:fs';

const THUMB_BIT = 1;

export class Meter {
  /** functions: {name: address}; each call becomes a line of JSON in the file. */
  constructor(functions, file) {
    this.names = new Map(Object.entries(functions).map(([name, address]) => [address & ~THUMB_BIT, name]));
    this.file = fs.openSync(file, 'a');
    this.call = null;
  }

  before(core, pc) {
    if (core.IPSR !== 0) return;
    const call = this.call;
    if (call) {
      if (pc === call.returnTo && core.SP === call.stack) this.finish(call);
    } else if (this.names.has(pc)) {
      this.call = { name: this.names.get(pc), stack: core.SP, deepest: core.SP, returnTo: core.LR & ~THUMB_BIT, cycles: 0 };
    }
  }

  after(core, cycles) {
    const call = this.call;
    if (!call || core.IPSR !== 0) return;
    call.cycles += cycles;
    if (core.SP < call.deepest) call.deepest = core.SP;
  }

  finish(call) {
    this.call = null;
    const record = { name: call.name, cycles: call.cycles, stack_bytes: call.stack - call.deepest };
    fs.writeSync(this.file, `${JSON.stringify(record)}\n`);
  }
}
