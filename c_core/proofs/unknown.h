/* SPDX-License-Identifier: MIT */
/* Inputs of which the analysis knows only the size. Frama-C reads a harness; it never runs. */
#ifndef PEEL_PROOFS_UNKNOWN_H
#define PEEL_PROOFS_UNKNOWN_H

#include <stddef.h>
#include <stdint.h>

#include "__fc_builtin.h"

/* Any bytes in an object. */
#define UNKNOWN(object) Frama_C_make_unknown((char *)&(object), sizeof(object))

/* Any value; for sizes, any up to a maximum. */
#define ANY_U8() Frama_C_unsigned_char_interval(0, UINT8_MAX)
#define ANY_U32() Frama_C_unsigned_int_interval(0, UINT32_MAX)
#define ANY_U64() Frama_C_unsigned_long_interval(0, UINT64_MAX)
#define ANY_SIZE(largest) Frama_C_size_t_interval(0, (largest))

/* Either of two pointers. */
#define EITHER(a, b) (Frama_C_nondet(0, 1) ? (a) : (b))

/* A width outside the range. */
#define BAD_WIDTH() \
  (Frama_C_nondet(0, 1) ? Frama_C_unsigned_int_interval(0, 1) : Frama_C_unsigned_int_interval(PEEL_MAX_WIDTH + 1, UINT32_MAX))

/* An array of SIZE bytes that may be empty: the last element starts at its end. */
#define BYTES(name, size) static uint8_t name##_and_end[(size) + 1], *const name = name##_and_end + 1

#endif
