// SPDX-License-Identifier: MIT
// An RP2040 with our own boot ROM and a flash that is a file.
import { randomInt } from 'node:crypto';
import fs from 'node:fs';
import { RP2040, ConsoleLogger, LogLevel } from 'rp2040js';
import { attachSensors } from './sensors.mjs';
import { repairTransmitter } from './uart.mjs';

const ROM_BYTES = 16 * 1024;
const FLASH_BYTES = 2 * 1024 * 1024;
const FLASH_PAGE = 0x10; // addresses 0x10xxxxxx
const WATCHDOG = 0x40058;
const RING_OSCILLATOR = 0x40060;
const RANDOM_BIT = 0x1c;
const THUMB_BIT = 1;

/** Writes every change of the flash through to its file at once: killing the process is pulling the plug. */
class FlashBacked extends RP2040 {
  attach(file) {
    this.file = fs.openSync(file, 'r+');
    this.word = Buffer.alloc(4);
    const image = fs.readFileSync(file);
    if (image.length !== FLASH_BYTES) throw new Error(`${file} is ${image.length} bytes, a Pico's flash has ${FLASH_BYTES}`);
    this.flash.set(image);
  }

  writeUint32(address, value) {
    super.writeUint32(address, value);
    if (address >>> 24 !== FLASH_PAGE) return;
    this.word.writeUInt32LE(value >>> 0);
    fs.writeSync(this.file, this.word, 0, 4, address & (FLASH_BYTES - 1));
  }

  detach() {
    fs.closeSync(this.file);
  }
}

/**
 * The ring oscillator's random bit, from the host: rp2040js has no oscillator, and without one the firmware rightly refuses to report.
 * For tests. It says nothing about the oscillator of a real chip, and nothing on the device can ask for it.
 */
function giveRandomBits(oscillator) {
  const read = oscillator.readUint32.bind(oscillator);
  oscillator.readUint32 = (offset) => (offset === RANDOM_BIT ? randomInt(2) : read(offset));
}

/** One power-on of the board. `onReset` is called when the firmware resets itself or the watchdog bites. */
export class Machine {
  constructor({ rom, flash, sensors, onReset }) {
    this.chip = new FlashBacked();
    this.chip.logger = new ConsoleLogger(LogLevel.Error, true);
    const image = Buffer.alloc(ROM_BYTES);
    fs.readFileSync(rom).copy(image);
    this.chip.loadBootrom(new Uint32Array(image.buffer, image.byteOffset, ROM_BYTES / 4)); // this also clears the flash
    this.chip.attach(flash);
    this.chip.core.reset();
    this.chip.uart.forEach((uart) => repairTransmitter(uart, this.chip.clock));
    this.chip.peripherals[WATCHDOG].onWatchdogTrigger = () => {
      this.halted = true;
      onReset();
    };
    giveRandomBits(this.chip.peripherals[RING_OSCILLATOR]);
    attachSensors(this.chip, sensors);
    this.chip.onBreak = (code) => this.stopAtBreakpoint(code);
    this.halted = false;
    this.meter = null;
  }

  stopAtBreakpoint(code) {
    const { PC, LR } = this.chip.core;
    this.halted = true;
    const reason = { 0xf0: 'a fault', 0xf1: 'a boot ROM function that the stub lacks' }[code] ?? `breakpoint ${code}`;
    console.error(`the emulated Pico stopped at ${reason}: pc ${PC.toString(16)} lr ${LR.toString(16)}`);
    process.exitCode = 70;
    setImmediate(() => process.exit());
  }

  get nanos() {
    return this.chip.clock.nanos;
  }

  /** Run about `count` instructions, no further than `until` (emulated nanoseconds) while the core sleeps. */
  run(count, until) {
    const { core, clock, clkSys } = this.chip;
    const cycleNanos = 1e9 / clkSys;
    const meter = this.meter;
    for (let i = 0; i < count && !this.halted; i++) {
      if (core.waiting) {
        const room = until - clock.nanos;
        if (room <= 0) return;
        const toAlarm = clock.nanosToNextAlarm;
        clock.tick(Math.min(toAlarm > 0 ? toAlarm : 1000, room, 1e6));
        i += 50; // a sleeping core costs the host little; still let it come up for air
      } else {
        if (meter) meter.before(core, core.PC & ~THUMB_BIT);
        const cycles = core.executeInstruction();
        if (meter) meter.after(core, cycles);
        clock.tick(cycles * cycleNanos);
      }
    }
  }
}
