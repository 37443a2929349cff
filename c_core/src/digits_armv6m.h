/* SPDX-License-Identifier: MIT */
/* The digits of a column for Cortex-M0 and M0+: 38 cycles a row, with every constant in a register. Follows `column_digits` in
 * projection.c line by line, except that a trit is made as (sign | 1) & nonzero, both masks. */
#ifndef PEEL_DIGITS_ARMV6M_H
#define PEEL_DIGITS_ARMV6M_H

#include <stdint.h>

/* The constants of the loop, in the order in which they are loaded. */
struct digits_job {
  uint32_t width;
  uint32_t column;
  uint32_t factors[2];
  const uint8_t *end; /* of digits */
};

/* digits in r0, words in r1, job in r2; at least one row. */
__attribute__((naked, noinline, noipa)) static void digits_loop(uint8_t *digits, const uint32_t *words, const struct digits_job *job) {
  (void)digits, (void)words, (void)job;
  __asm__ volatile(
      ".syntax unified\n"
      "push {r4-r7, lr}\n"
      "mov r4, r8\n mov r5, r9\n mov r6, r10\n"
      "push {r4-r6}\n"
      "ldmia r2!, {r3-r7}\n"
      "mov r8, r4\n mov r9, r5\n mov r10, r6\n mov r12, r7\n movs r7, r3\n" /* column, factors, end; width stays in r7 */
      "1:\n"
      "ldmia r1!, {r2}\n"
      "lsrs r3, r2, #16\n muls r3, r7\n lsrs r3, r3, #16\n"          /* centre */
      "mov r5, r8\n subs r3, r5\n"                                   /* distance to the partner: centre - column ... */
      "asrs r6, r3, #31\n ands r6, r7\n adds r3, r6\n subs r3, r5\n" /* ... modulo width, - column */
      "asrs r6, r3, #31\n"                                           /* second, as a mask */
      "movs r4, r3\n ands r4, r6\n adds r4, r5\n"                    /* the smaller column of the pair */
      "mov r5, r9\n muls r4, r5\n eors r4, r2\n"                     /* h */
      "lsrs r5, r4, #15\n eors r4, r5\n mov r5, r10\n muls r4, r5\n"
      "rsbs r5, r3, #0\n orrs r5, r3\n ands r4, r5\n"      /* no partner: the top bits go */
      "lsls r5, r4, #1\n eors r5, r6\n asrs r5, r5, #31\n" /* negative, as a mask */
      "movs r6, #1\n orrs r5, r6\n asrs r4, r4, #31\n ands r5, r4\n adds r5, #1\n"
      "strb r5, [r0]\n adds r0, #1\n cmp r0, r12\n bne 1b\n"
      "pop {r4-r6}\n"
      "mov r8, r4\n mov r9, r5\n mov r10, r6\n"
      "pop {r4-r7, pc}\n");
}

static void column_digits(uint8_t *digits, const uint32_t *words, uint32_t count, uint32_t width, uint32_t column) {
  const struct digits_job job = {width, column, {0x85ebca6b, 0x2c1b3c6d}, digits + count};
  digits_loop(digits, words, &job);
}

#endif
