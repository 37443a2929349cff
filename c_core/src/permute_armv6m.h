/* SPDX-License-Identifier: MIT */
/* The Ascon permutation for Cortex-M0 and M0+: about 150 cycles a round, where compiled C takes 270.
 *
 * The ten halves of the state fill ten of the fourteen registers. One half of each word is in r0 to r5, where Thumb can compute; the
 * other is parked in r8 to r12. A round runs the S-box on the halves in r0 to r5, swaps the two sets and runs it on the others. Then
 * follows the linear layer, which needs both halves of one word at a time. It ends with the sets swapped, so the loop does two rounds.
 */
#ifndef PEEL_PERMUTE_ARMV6M_H
#define PEEL_PERMUTE_ARMV6M_H

#include <stdint.h>

__asm__(
    /* The next round constant, from lr, into the lower half of x2. */
    ".macro peel_constant x2, t\n"
    "mov \\t, lr\n eors \\x2, \\t\n subs \\t, #15\n mov lr, \\t\n"
    ".endm\n"

    /* x ^= b & ~a */
    ".macro peel_chi x, a, b, t\n"
    "movs \\t, \\b\n bics \\t, \\a\n eors \\x, \\t\n"
    ".endm\n"

    ".macro peel_sbox x0, x1, x2, x3, x4, t0, t1, t2\n"
    "eors \\x0, \\x4\n eors \\x4, \\x3\n eors \\x2, \\x1\n"
    "movs \\t0, \\x0\n movs \\t1, \\x1\n"
    "peel_chi \\x0, \\x1, \\x2, \\t2\n peel_chi \\x1, \\x2, \\x3, \\t2\n"
    "peel_chi \\x2, \\x3, \\x4, \\t2\n peel_chi \\x3, \\x4, \\t0, \\t2\n"
    "bics \\t1, \\t0\n eors \\x4, \\t1\n"
    "eors \\x1, \\x0\n eors \\x0, \\x4\n eors \\x3, \\x2\n mvns \\x2, \\x2\n"
    ".endm\n"

    /* One half of (x >>> m) ^ (x >>> n). ma and na are the halves shifted right, mb and nb those shifted left. */
    ".macro peel_rotations out, t, ma, mb, m, na, nb, n\n"
    "lsrs \\out, \\ma, #\\m\n lsls \\t, \\mb, #(32 - \\m)\n eors \\out, \\t\n"
    "lsrs \\t, \\na, #\\n\n eors \\out, \\t\n lsls \\t, \\nb, #(32 - \\n)\n eors \\out, \\t\n"
    ".endm\n"

    /* One word: half x in a low register, the other parked. For a rotation of 32 or more the halves swap and 32 is subtracted: then a is
     * the other half (o) and b is x, otherwise a is x and b is o. */
    ".macro peel_diffuse x, parked, o, s, t, ma, mb, m, na, nb, n\n"
    "mov \\o, \\parked\n"
    "peel_rotations \\s, \\t, \\mb, \\ma, \\m, \\nb, \\na, \\n\n eors \\s, \\o\n mov \\parked, \\s\n"
    "peel_rotations \\s, \\t, \\ma, \\mb, \\m, \\na, \\nb, \\n\n eors \\x, \\s\n"
    ".endm\n"

    ".macro peel_linear x0, x1, x2, x3, x4, o, s, t\n"
    "peel_diffuse \\x0, r8, \\o, \\s, \\t, \\x0, \\o, 19, \\x0, \\o, 28\n"
    "peel_diffuse \\x1, r9, \\o, \\s, \\t, \\o, \\x1, 29, \\o, \\x1, 7\n" /* 61 and 39 */
    "peel_diffuse \\x2, r10, \\o, \\s, \\t, \\x2, \\o, 1, \\x2, \\o, 6\n"
    "peel_diffuse \\x3, r11, \\o, \\s, \\t, \\x3, \\o, 10, \\x3, \\o, 17\n"
    "peel_diffuse \\x4, r12, \\o, \\s, \\t, \\x4, \\o, 7, \\o, \\x4, 9\n" /* 7 and 41 */
    ".endm\n");

/* s in r0, rounds in r1, an even number. noipa keeps the arguments where the procedure call standard puts them. */
__attribute__((naked, noinline, noipa)) static void permute(uint64_t s[5], unsigned rounds) {
  (void)s, (void)rounds;
  __asm__ volatile(
      ".syntax unified\n"
      "push {r4-r7, lr}\n"
      "mov r4, r8\n mov r5, r9\n mov r6, r10\n mov r7, r11\n"
      "push {r0, r4-r7}\n"
      "movs r2, #15\n muls r1, r2\n adds r1, #0x3c\n mov lr, r1\n" /* the first constant: 0xf0 for 12 rounds */
      "mov r5, r0\n"
      "ldmia r5!, {r0, r6}\n mov r8, r6\n"
      "ldmia r5!, {r1, r6}\n mov r9, r6\n"
      "ldmia r5!, {r2, r6}\n mov r10, r6\n"
      "ldmia r5!, {r3, r6}\n mov r11, r6\n"
      "ldmia r5!, {r4, r6}\n mov r12, r6\n"
      "1:\n"
      /* lower halves in r0 to r4 */
      "peel_constant r2, r5\n"
      "peel_sbox r0, r1, r2, r3, r4, r5, r6, r7\n"
      "mov r5, r8\n mov r8, r0\n mov r0, r9\n mov r9, r1\n mov r1, r10\n mov r10, r2\n"
      "mov r2, r11\n mov r11, r3\n mov r3, r12\n mov r12, r4\n"
      /* upper halves in r5, r0 to r3 */
      "peel_sbox r5, r0, r1, r2, r3, r4, r6, r7\n"
      "peel_linear r5, r0, r1, r2, r3, r4, r6, r7\n"
      "peel_sbox r5, r0, r1, r2, r3, r4, r6, r7\n"
      "mov r4, r12\n mov r12, r3\n mov r3, r11\n mov r11, r2\n mov r2, r10\n mov r10, r1\n"
      "mov r1, r9\n mov r9, r0\n mov r0, r8\n mov r8, r5\n"
      /* lower halves in r0 to r4 again */
      "peel_constant r2, r5\n"
      "peel_sbox r0, r1, r2, r3, r4, r5, r6, r7\n"
      "peel_linear r0, r1, r2, r3, r4, r5, r6, r7\n"
      "mov r5, lr\n cmp r5, #0x3c\n beq 2f\n b 1b\n"
      "2:\n"
      "ldr r5, [sp]\n"
      "mov r6, r8\n stmia r5!, {r0, r6}\n"
      "mov r6, r9\n stmia r5!, {r1, r6}\n"
      "mov r6, r10\n stmia r5!, {r2, r6}\n"
      "mov r6, r11\n stmia r5!, {r3, r6}\n"
      "mov r6, r12\n stmia r5!, {r4, r6}\n"
      "pop {r0, r4-r7}\n"
      "mov r8, r4\n mov r9, r5\n mov r10, r6\n mov r11, r7\n"
      "pop {r4-r7, pc}\n");
}

#endif
