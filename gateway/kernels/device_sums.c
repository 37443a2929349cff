/* SPDX-License-Identifier: MIT */
#include "device_sums.h"

enum { STEP, PLUS, MINUS, FORFEITS, COLUMNS };

/* Inlined with constant widths where a loop runs often. */
static inline uint64_t load(const uint8_t *column, size_t row, unsigned width) {
  const uint8_t *bytes = column + row * width;
  switch (width) {
    case 1:
      return bytes[0];
    case 2:
      return (uint64_t)bytes[0] | (uint64_t)bytes[1] << 8;
    case 4:
      return (uint64_t)bytes[0] | (uint64_t)bytes[1] << 8 | (uint64_t)bytes[2] << 16 | (uint64_t)bytes[3] << 24;
    case 8: {
      uint64_t value = 0;
      for (unsigned i = 0; i < 8; i++) value |= (uint64_t)bytes[i] << 8 * i;
      return value;
    }
    default:
      return 0;
  }
}

/* Add rows of one unit to the sums of its group, which begin at `base`. */
static inline int add_unit(const peel_device_sums *sums, const uint8_t *const *columns, size_t row, size_t end, const unsigned *widths,
                           unsigned bits, uint64_t code, size_t base) {
  const uint64_t mask = ((uint64_t)1 << bits) - 1;
  for (size_t first = row; row < end; row++) {
    if (row > first) code += load(columns[STEP], row, widths[STEP]); /* the step of a first row has no meaning */
    uint64_t device = code >> bits, cell = code & mask;
    if (device < sums->low || device > sums->high) continue;
    int64_t slot = sums->slot ? sums->slot[device - sums->low] : (int64_t)(device - sums->low);
    if (slot < 0) continue;
    if ((size_t)slot >= sums->slots || cell >= sums->cells) return -1;
    size_t place = base + ((size_t)slot * sums->cells + (size_t)cell) * sums->states;
    if (sums->states == 2) place += (int64_t)load(columns[FORFEITS], row, widths[FORFEITS]) < sums->count_from[slot];
    sums->plus[place] += load(columns[PLUS], row, widths[PLUS]);
    sums->minus[place] += load(columns[MINUS], row, widths[MINUS]);
  }
  return 0;
}

static int are_right(const peel_rollup_piece *piece) {
  if (piece->bits > 63) return 0;
  for (int i = 0; i < COLUMNS; i++) {
    unsigned width = piece->widths[i];
    if (width != 1 && width != 2 && width != 4 && width != 8 && !(width == 0 && i == FORFEITS)) return 0;
  }
  uint64_t left = piece->rows;
  for (size_t unit = 0; unit < piece->units; unit++) {
    if (piece->entries[unit] > left) return 0;
    left -= piece->entries[unit];
  }
  return left == 0;
}

int peel_device_sums_add(const peel_device_sums *sums, const peel_rollup_piece *piece) {
  if (!are_right(piece)) return -1;
  const uint8_t *columns[COLUMNS];
  unsigned widths[COLUMNS];
  const uint8_t *at = piece->columns;
  for (int i = 0; i < COLUMNS; i++) {
    columns[i] = at;
    widths[i] = piece->widths[i];
    at += piece->rows * widths[i];
  }
  static const unsigned narrow[COLUMNS] = {1, 1, 1, 0}, usual[COLUMNS] = {2, 1, 1, 0};
  size_t row = 0;
  for (size_t unit = 0; unit < piece->units; unit++) {
    size_t end = row + (size_t)piece->entries[unit];
    int64_t group = piece->group[unit];
    if (group >= (int64_t)sums->groups) return -1;
    if (group >= 0) {
      size_t base = (size_t)group * sums->slots * sums->cells * sums->states;
      int found;
      int small = widths[PLUS] == 1 && widths[MINUS] == 1 && widths[FORFEITS] == 0;
      if (small && widths[STEP] == 1)
        found = add_unit(sums, columns, row, end, narrow, piece->bits, piece->first[unit], base);
      else if (small && widths[STEP] == 2)
        found = add_unit(sums, columns, row, end, usual, piece->bits, piece->first[unit], base);
      else
        found = add_unit(sums, columns, row, end, widths, piece->bits, piece->first[unit], base);
      if (found) return found;
    }
    row = end;
  }
  return 0;
}
