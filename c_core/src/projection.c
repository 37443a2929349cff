/* SPDX-License-Identifier: MIT */
/* The balanced sparse ternary projection: one column, straight into packed trits (SPEC section 8). */
#include "peel.h"

/* Rows per step. Each step is three small loops, so that even a Cortex-M0+ keeps all of a loop in its eight registers, and
 * compilers for larger machines turn the first two into vector code. A multiple of five, so that steps end with a byte. */
#define STEP 40

#if defined(__ARM_ARCH_6M__) && defined(__ARMEL__) && defined(__GNUC__) && !defined(__clang__)
#define PEEL_ARMV6M 1
/* GCC would replace multiplications by some constants with twenty shifts and additions. This core multiplies in one cycle: hide them. */
#define HIDE(constant) __asm__("" : "+r"(constant))
#else
#define HIDE(constant) (void)(constant)
#endif

/* Compute the words of count rows, starting at row. */
static void row_words(uint32_t *words, uint32_t seed, uint32_t row, uint32_t count) {
  uint32_t stride = 0x9e3779b9, first = 0x7feb352d, second = 0x846ca68b;
  HIDE(stride);
  HIDE(first);
  HIDE(second);
  uint32_t start = seed + row * stride;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t x = start += stride;
    x ^= x >> 16;
    x *= first;
    x ^= x >> 15;
    x *= second;
    x ^= x >> 16;
    words[i] = x;
  }
}

#ifdef PEEL_ARMV6M
#include "digits_armv6m.h"
#else

/* Compute the digits (trit + 1) of a column in count rows. Branch-free, so that timing does not reveal the column. */
static void column_digits(uint8_t *digits, const uint32_t *words, uint32_t count, uint32_t width, uint32_t column) {
  for (uint32_t i = 0; i < count; i++) {
    uint32_t word = words[i];
    uint32_t distance = ((word >> 16) * width >> 16) - column; /* to the partner: centre - column, modulo width */
    distance += width & (0 - (distance >> 31));
    distance -= column;
    uint32_t second = distance >> 31; /* 1 if this column is the larger of the pair */
    uint32_t h = word ^ (column + (distance & (0 - second))) * 0x85ebca6b;
    h ^= h >> 15;
    h *= 0x2c1b3c6d;
    uint32_t nonzero = (distance | (0 - distance)) >> 31 & h >> 31;
    uint32_t negative = (h >> 30 ^ second) & nonzero;
    digits[i] = (uint8_t)(1 + nonzero - 2 * negative);
  }
}

#endif

/* Five digits per byte. A negated codeword has the digits 2 - d, so its byte is (all digits 2) - byte. */
static uint8_t *pack(uint8_t *out, const uint8_t *digits, uint32_t count, uint32_t minus) {
  uint32_t flip = 0 - minus;
  for (; count >= 5; count -= 5, digits += 5) {
    uint32_t byte = digits[0] + 3u * (digits[1] + 3u * (digits[2] + 3u * (digits[3] + 3u * digits[4])));
    *out++ = (uint8_t)((byte ^ flip) + minus + (242 & flip));
  }
  if (count) {
    uint32_t byte = 0, twos = 0;
    while (count--) byte = 3 * byte + digits[count], twos = 3 * twos + 2;
    *out++ = (uint8_t)((byte ^ flip) + minus + (twos & flip));
  }
  return out;
}

static int valid_width(uint32_t width) { return width >= 2 && width <= PEEL_MAX_WIDTH; }

int peel_projection_rows(uint32_t *rows, uint32_t seed, uint32_t width) {
  if (!valid_width(width)) return PEEL_E_WIDTH;
  row_words(rows, seed, 0, width - 1);
  return PEEL_OK;
}

int peel_projection_encode(uint8_t *trits, uint32_t seed, uint32_t width, const uint32_t *rows, peel_symbol symbol) {
  if (!valid_width(width) || symbol.index >= width) return PEEL_E_WIDTH;
  uint8_t *out = trits;
  for (uint32_t row = 0; row + 1 < width; row += STEP) {
    uint32_t words[STEP];
    uint8_t digits[STEP];
    uint32_t count = width - 1 - row < STEP ? width - 1 - row : STEP;
    if (!rows) row_words(words, seed, row, count);
    column_digits(digits, rows ? rows + row : words, count, width, symbol.index);
    out = pack(out, digits, count, symbol.minus);
  }
  return (int)(out - trits);
}

int peel_projection_check(uint32_t width, const uint8_t *trits) {
  if (!valid_width(width)) return PEEL_E_WIDTH;
  for (uint32_t left = width - 1; left; trits++) {
    uint32_t limit = 1;
    for (int i = 0; i < 5 && left; i++, left--) limit *= 3;
    if (*trits >= limit) return PEEL_E_TRITS; /* above 242, or a digit past the last trit */
  }
  return PEEL_OK;
}

int peel_projection_unpack(int8_t *out, uint32_t width, const uint8_t *trits) {
  uint32_t row = 0;
  int error = peel_projection_check(width, trits);
  if (error) return error;
  while (row + 1 < width) {
    uint32_t byte = *trits++;
    for (int i = 0; i < 5 && row + 1 < width; i++, row++) {
      uint32_t rest = byte * 171 >> 9; /* byte / 3, exact below 256 */
      out[row] = (int8_t)(byte - 3 * rest - 1);
      byte = rest;
    }
  }
  return PEEL_OK;
}
