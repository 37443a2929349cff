// SPDX-License-Identifier: MIT
// An emulated Raspberry Pi Pico: node main.mjs '{"rom": …, "flash": …}'. The console (USB serial) is standard input and output.
//
//   rom, flash     the boot ROM, and the flash image, which is written to as the firmware writes to its flash
//   sensors        devices on I2C0 and levels of pins, optional; see sensors.mjs
//   link           [host, port]: where UART1 leads, optional
//   measure        {"functions": {name: address}, "file": path}: count cycles and stack of these functions, optional
//   paced          false: as fast as the host can, instead of no faster than real time
import { Console } from './console.mjs';
import { Link } from './link.mjs';
import { Machine } from './machine.mjs';
import { Meter } from './meter.mjs';

const SLICE = 30000;
const FOREVER = Number.MAX_SAFE_INTEGER;

const settings = JSON.parse(process.argv[2]);
const paced = settings.paced !== false;
const meter = settings.measure ? new Meter(settings.measure.functions, settings.measure.file) : null;
const wallNanos = () => Number(process.hrtime.bigint());

let machine, terminal, link, poweredAt;

function powerOn() {
  link?.close();
  machine?.chip.detach();
  machine = new Machine({ ...settings, onReset: () => setImmediate(powerOn) });
  machine.meter = meter;
  terminal = new Console(machine, (data) => process.stdout.write(data));
  link = settings.link ? new Link(machine, ...settings.link) : null;
  poweredAt = wallNanos();
}

function loop() {
  const now = paced ? wallNanos() - poweredAt : FOREVER;
  terminal.flush();
  machine.run(SLICE, now);
  if (paced && machine.chip.core.waiting && machine.nanos >= now) setTimeout(loop, 1);
  else setImmediate(loop);
}

process.stdin.on('data', (data) => terminal.send(data));
process.stdin.on('end', () => process.exit(0));
powerOn();
loop();
