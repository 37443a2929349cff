/* SPDX-License-Identifier: MIT */
#include "missing_instructions.h"

#include <stdint.h>

#include "multiply.h"
#include "system.h"

enum { SIGNAL_ILLEGAL = 4, WITH_CONTEXT = 4, STATUS_ILLEGAL = 71 };

/* As Linux lays them out for Xtensa. */
struct context {
  uint32_t flags, link, stack[3];
  uint32_t pc, ps, loop_begin, loop_end, loop_count, shift, accumulator[2];
  uint32_t registers[16];
};

struct action {
  void (*handler)(int signal, void *info, struct context *context);
  uint32_t flags, restorer, mask[2];
};

static uint32_t multiply_high_signed(uint32_t a, uint32_t b) { return multiply_high(a, b) - (a >> 31 ? b : 0) - (b >> 31 ? a : 0); }

/* MULUH r, s, t is the three bytes t0 rs a2; MULSH ends in b2. */
static void on_illegal(int signal, void *info, struct context *context) {
  (void)signal, (void)info;
  const uint8_t *code = (const uint8_t *)context->pc;
  uint32_t a = context->registers[code[1] & 15], b = context->registers[code[0] >> 4];
  if ((code[0] & 15) != 0 || (code[2] != 0xa2 && code[2] != 0xb2)) system_exit(STATUS_ILLEGAL);
  context->registers[code[1] >> 4] = code[2] == 0xa2 ? multiply_high(a, b) : multiply_high_signed(a, b);
  context->pc += 3;
}

void emulate_missing_instructions(void) {
  static const struct action action = {.handler = on_illegal, .flags = WITH_CONTEXT};
  system_sigaction(SIGNAL_ILLEGAL, &action, 0, sizeof action.mask);
}
