/* SPDX-License-Identifier: MIT */
/* Prints the state of a device as it is stored, in hexadecimal, after many events of every form: the same on every machine. */
#include <stdio.h>

#include "fuzz_e_process.c"

enum { EVENTS = 1500 };

static uint8_t next_byte(uint32_t *seed) { return (uint8_t)((*seed = *seed * 1664525 + 1013904223) >> 24); }

static int is_big_endian(void) {
  const uint16_t one = 1;
  return *(const uint8_t *)&one == 0;
}

int main(void) {
  unsigned which = PROCESSES - 1;
  peel_e_process process = process_of(which);
  uint8_t *state = calloc(1, process.bytes);
  uint32_t seed = 1;
  const uint64_t place = 0;
  require(state != NULL);
  process.limit = 1e300;
  for (uint64_t number = 1; number <= EVENTS; number++) {
    uint8_t data[EVENT_BYTES];
    columns c;
    int64_t crossed = -1;
    for (size_t i = 0; i < sizeof data; i++) data[i] = next_byte(&seed);
    if (data[1] & 64) data[1] = 0; /* a bias, so that bets win */
    peel_e_process_events events = read_events(&c, which, data, 1);
    c.number[0] = number;
    peel_e_process_update(&crossed, state, &place, &process, &events);
  }
  if (is_big_endian()) peel_e_process_reverse_bytes(state, &process);
  for (size_t i = 0; i < process.bytes; i++) printf("%02x", state[i]);
  free(state);
  return 0;
}
