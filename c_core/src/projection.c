/* The balanced sparse ternary projection: one column, straight into packed trits (SPEC section 8). */
#include "peel.h"

static uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352d;
  x ^= x >> 15;
  x *= 0x846ca68b;
  x ^= x >> 16;
  return x;
}

static uint32_t row_word(uint32_t seed, uint32_t row) { return mix(seed + (row + 1) * 0x9e3779b9); }

/* The digit (trit + 1) of one entry, negated when minus is 1. Branch-free: the column and the sign stay out of the timing. */
static uint32_t digit(uint32_t word, uint32_t width, uint32_t column, uint32_t minus) {
  uint32_t centre = (word >> 16) * width >> 16;
  uint32_t partner = centre - column;
  partner += width & (0 - (partner >> 31));
  uint32_t distance = partner - column;
  uint32_t second = distance >> 31; /* 1 when this column is the larger of the pair */
  uint32_t low = column + (distance & (0 - second));
  uint32_t h = word ^ low * 0x85ebca6b;
  h ^= h >> 15;
  h *= 0x2c1b3c6d;
  uint32_t nonzero = h >> 31 & (distance | (0 - distance)) >> 31;
  uint32_t sign = (h >> 30 ^ second ^ minus) & nonzero;
  return 1 + nonzero - 2 * sign;
}

static int valid_width(uint32_t width) { return width >= 2 && width <= PEEL_MAX_WIDTH; }

void peel_projection_rows(uint32_t *rows, uint32_t seed, uint32_t width) {
  for (uint32_t row = 0; row + 1 < width; row++) rows[row] = row_word(seed, row);
}

/* Digits of up to CHUNK rows at a time: a loop without carried state, which compilers turn into vector code where there is any. */
#define CHUNK 40

static void digits_of(uint8_t digits[CHUNK], uint32_t count, uint32_t seed, uint32_t width, const uint32_t *rows, uint32_t row,
                      peel_symbol symbol) {
  if (rows) {
    for (uint32_t i = 0; i < count; i++) digits[i] = (uint8_t)digit(rows[row + i], width, symbol.index, symbol.minus);
  } else {
    for (uint32_t i = 0; i < count; i++) digits[i] = (uint8_t)digit(row_word(seed, row + i), width, symbol.index, symbol.minus);
  }
}

int peel_projection_encode(uint8_t *trits, uint32_t seed, uint32_t width, const uint32_t *rows, peel_symbol symbol) {
  if (!valid_width(width) || symbol.index >= width) return PEEL_E_WIDTH;
  uint8_t *out = trits;
  for (uint32_t row = 0; row + 1 < width; row += CHUNK) {
    uint8_t digits[CHUNK] = {0};
    uint32_t count = width - 1 - row < CHUNK ? width - 1 - row : CHUNK;
    digits_of(digits, count, seed, width, rows, row, symbol);
    for (uint32_t i = 0; i < count; i += 5) {
      *out++ = (uint8_t)(digits[i] + 3 * (digits[i + 1] + 3 * (digits[i + 2] + 3 * (digits[i + 3] + 3 * digits[i + 4]))));
    }
  }
  return (int)(out - trits);
}

int peel_projection_unpack(int8_t *out, uint32_t width, const uint8_t *trits) {
  uint32_t row = 0;
  if (!valid_width(width)) return PEEL_E_WIDTH;
  while (row + 1 < width) {
    uint32_t byte = *trits++;
    for (int i = 0; i < 5 && row + 1 < width; i++, row++) {
      uint32_t rest = byte * 171 >> 9; /* byte / 3, exact below 256 */
      out[row] = (int8_t)(byte - 3 * rest - 1);
      byte = rest;
    }
    if (byte) return PEEL_E_TRITS; /* above 242, or a digit past the last trit */
  }
  return PEEL_OK;
}
