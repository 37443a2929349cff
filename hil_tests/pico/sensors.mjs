// SPDX-License-Identifier: MIT
// Sensors of the emulated Pico: devices with registers on I2C0, and levels at input pins.
//
//   i2c      {address: hexadecimal registers from 0 on}
//   inputs   {pin: 0 or 1}

/** Devices whose registers keep their values: a write sets the register that the next read begins at, and changes nothing. */
function attachDevices(bus, devices) {
  let registers, first, at;
  bus.onConnect = (address, reading) => {
    registers = devices.get(address);
    first = !reading;
    bus.completeConnect(registers !== undefined);
  };
  bus.onWriteByte = (value) => {
    if (first) at = value;
    first = false;
    bus.completeWrite(true);
  };
  bus.onReadByte = () => bus.completeRead(registers[at++]);
}

export function attachSensors(chip, { i2c = {}, inputs = {} } = {}) {
  const devices = Object.entries(i2c).map(([address, hex]) => [Number(address), Buffer.from(hex, 'hex')]);
  if (devices.length) attachDevices(chip.i2c[0], new Map(devices));
  for (const [pin, level] of Object.entries(inputs)) chip.gpio[pin].setInputValue(Boolean(level));
}
