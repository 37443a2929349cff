/* SPDX-License-Identifier: MIT */
/* The C half of the emulated RP2040's boot ROM: memory, flash and floating point (rom.S has the rest and the tables).
 *
 * Floating point is the compiler's own, in the order of the ROM's tables (RP2040 datasheet, section 2.8.3.2). Functions that
 * MicroPython does not reach stop the emulator by name, so a missing one is seen at once.
 */
#include <stdint.h>

void rom_missing(void);

/* ---- Memory ---- */

void *rom_memset(void *target, int value, uint32_t len) {
  volatile uint8_t *byte = target;
  for (; len && (uintptr_t)byte & 3; len--) *byte++ = (uint8_t)value;
  uint32_t word = (uint8_t)value * 0x01010101u;
  for (; len >= 4; len -= 4, byte += 4) *(volatile uint32_t *)byte = word;
  for (; len; len--) *byte++ = (uint8_t)value;
  return target;
}

void *rom_memcpy(void *target, const void *source, uint32_t len) {
  volatile uint8_t *to = target;
  const uint8_t *from = source;
  if ((((uintptr_t)to ^ (uintptr_t)from) & 3) == 0) {
    for (; len && (uintptr_t)to & 3; len--) *to++ = *from++;
    for (; len >= 4; len -= 4, to += 4, from += 4) *(volatile uint32_t *)to = *(const uint32_t *)from;
  }
  for (; len; len--) *to++ = *from++;
  return target;
}

/* ---- Flash ---- */

#define FLASH 0x10000000u

/* The emulator lets word stores change the flash, and writes each through to the image file at once. */
void rom_flash_erase(uint32_t offset, uint32_t len, uint32_t block_size, uint8_t block_command) {
  (void)block_size, (void)block_command;
  volatile uint32_t *word = (volatile uint32_t *)(FLASH + offset);
  for (; len >= 4; len -= 4) *word++ = 0xffffffffu;
}

/* Programming clears bits and never sets one, as in the real part. */
void rom_flash_program(uint32_t offset, const uint8_t *data, uint32_t len) {
  volatile uint32_t *word = (volatile uint32_t *)(FLASH + offset);
  for (; len >= 4; len -= 4, data += 4, word++) {
    uint32_t value = (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
    *word = *word & value;
  }
}

/* ---- Floating point ---- */

#define ARITHMETIC(type, name)                                        \
  static type name##_add(type a, type b) { return a + b; }            \
  static type name##_sub(type a, type b) { return a - b; }            \
  static type name##_mul(type a, type b) { return a * b; }            \
  static type name##_div(type a, type b) { return a / b; }            \
  static int name##_cmp(type a, type b) { return (a > b) - (a < b); } \
  static type name##_from_int(int32_t i) { return (type)i; }          \
  static type name##_from_uint(uint32_t i) { return (type)i; }        \
  static type name##_from_int64(int64_t i) { return (type)i; }        \
  static type name##_from_uint64(uint64_t i) { return (type)i; }

/* Conversions to integers round towards minus infinity and saturate. */
#define TO_SIGNED(type, name, integer, limit)                               \
  static integer name(type x) {                                             \
    if (x >= (type)(limit)) return (integer)((u##integer)(limit) - 1);      \
    if (x < -(type)(limit)) return -(integer)((u##integer)(limit) - 1) - 1; \
    integer whole = (integer)x;                                             \
    return (type)whole > x ? whole - 1 : whole;                             \
  }
#define TO_UNSIGNED(type, name, integer, limit)       \
  static integer name(type x) {                       \
    if (x >= 2 * (type)(limit)) return (integer) - 1; \
    return x > 0 ? (integer)x : 0;                    \
  }

#define LIMIT32 0x80000000u
#define LIMIT64 0x8000000000000000ull

ARITHMETIC(float, float)
TO_SIGNED(float, float_to_int, int32_t, LIMIT32)
TO_SIGNED(float, float_to_int64, int64_t, LIMIT64)
TO_UNSIGNED(float, float_to_uint, uint32_t, LIMIT32)
TO_UNSIGNED(float, float_to_uint64, uint64_t, LIMIT64)

ARITHMETIC(double, double)
TO_SIGNED(double, double_to_int, int32_t, LIMIT32)
TO_SIGNED(double, double_to_int64, int64_t, LIMIT64)
TO_UNSIGNED(double, double_to_uint, uint32_t, LIMIT32)
TO_UNSIGNED(double, double_to_uint64, uint64_t, LIMIT64)

static double float_to_double(float x) { return x; }
static float double_to_float(double x) { return (float)x; }

static float power_of_two(int exponent) {
  union {
    uint32_t bits;
    float value;
  } number = {(uint32_t)(127 + exponent) << 23};
  return number.value;
}
static float float_from_fix(int32_t mantissa, int exponent) { return (float)mantissa * power_of_two(-exponent); }
static float float_from_ufix(uint32_t mantissa, int exponent) { return (float)mantissa * power_of_two(-exponent); }

/* Newton's iteration from a guess that halves the exponent: four steps are exact to the last bit or next to it. */
static float float_sqrt(float x) {
  union {
    float value;
    uint32_t bits;
  } guess = {x};
  if (!(x > 0) || guess.bits >= 0x7f800000u) return x;
  guess.bits = (guess.bits >> 1) + 0x1fbd1df5u;
  for (int step = 0; step < 4; step++) guess.value = 0.5f * (guess.value + x / guess.value);
  return guess.value;
}

#define AT(function) ((void *)(function))
#define MISSING AT(rom_missing)

/* The SDK reads the number of entries two bytes before each table. */
struct table {
  uint8_t padding[2], count, zero;
  void *functions[32];
};

__attribute__((section(".tables.float"), used)) const struct table rom_floats = {
    .count = 32,
    .functions =
        {
            AT(float_add),
            AT(float_sub),
            AT(float_mul),
            AT(float_div),
            AT(float_cmp),
            MISSING,
            AT(float_sqrt),
            AT(float_to_int),
            MISSING,
            AT(float_to_uint),
            MISSING,
            AT(float_from_int),
            AT(float_from_fix),
            AT(float_from_uint),
            AT(float_from_ufix),
            MISSING,
            MISSING,
            MISSING,
            MISSING,
            MISSING,
            MISSING,
            AT(float_cmp),
            MISSING,
            AT(float_from_int64),
            MISSING,
            AT(float_from_uint64),
            MISSING,
            AT(float_to_int64),
            MISSING,
            AT(float_to_uint64),
            MISSING,
            AT(float_to_double),
        },
};

__attribute__((section(".tables.double"), used)) const struct table rom_doubles = {
    .count = 32,
    .functions =
        {
            AT(double_add), AT(double_sub),
            AT(double_mul), AT(double_div),
            AT(double_cmp), MISSING,
            MISSING,        AT(double_to_int),
            MISSING,        AT(double_to_uint),
            MISSING,        AT(double_from_int),
            MISSING,        AT(double_from_uint),
            MISSING,        MISSING,
            MISSING,        MISSING,
            MISSING,        MISSING,
            MISSING,        AT(double_cmp),
            MISSING,        AT(double_from_int64),
            MISSING,        AT(double_from_uint64),
            MISSING,        AT(double_to_int64),
            MISSING,        AT(double_to_uint64),
            MISSING,        AT(double_to_float),
        },
};
