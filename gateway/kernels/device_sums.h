/* SPDX-License-Identifier: MIT */
/* Sums of reports per device and cell, added up from the packed pieces of roll-ups (storage/sql/rollups.py). A query adds millions of rows
 * this way, and keeps only the sums. */
#ifndef PEEL_DEVICE_SUMS_H
#define PEEL_DEVICE_SUMS_H

#include <stddef.h>
#include <stdint.h>

/* Sums of plus and minus reports, [groups][slots][cells][states] each, and the slots of devices `low` to `high`. */
typedef struct {
  uint64_t *plus;
  uint64_t *minus;
  size_t groups;
  size_t slots;
  size_t cells;
  size_t states; /* 1: all rows count; 2: rows of state 1 do not count */
  uint64_t low;
  uint64_t high;
  const int32_t *slot;       /* of each device from low to high, -1 to leave it out; NULL: slots are in the order of devices */
  const int64_t *count_from; /* with two states: rows of a slot with fewer forfeits than this have state 1 */
} peel_device_sums;

/* A piece: rows of `units` units of time. `columns` are steps, plus, minus and forfeits, one behind the other, little-endian, with `widths`
 * bytes per row: 1, 2, 4 or 8; 0 for forfeits that are all zero. A row's code is that of the row before plus its step, and is
 * device << bits | cell. Each unit has the code of its first row, its number of rows, and its group, -1 to leave it out. */
typedef struct {
  const uint8_t *columns;
  size_t rows;
  const uint8_t *widths;
  unsigned bits;
  const uint64_t *first;
  const uint64_t *entries;
  const int64_t *group;
  size_t units;
} peel_rollup_piece;

/* Add the rows of a piece. Returns 0; -1 if the piece is damaged (a width, a number of rows, a group or a cell out of range). Memory out of
 * range is neither read nor written then, and the sums are of no use. */
int peel_device_sums_add(const peel_device_sums *sums, const peel_rollup_piece *piece);

#endif
