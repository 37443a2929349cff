/* SPDX-License-Identifier: MIT */
/* Coverage-guided fuzzing of the sums of roll-ups: a piece of any bytes is added or refused, and no memory outside of its arrays is used.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device_sums.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEADER = 8, UNIT = 6, GROUPS = 2, SLOTS = 3, CELLS = 5, LOW = 2, HIGH = 6 };

/* Memory of exactly so many bytes, so that the sanitizer sees the first one beyond them. */
static void *room(size_t bytes) {
  void *made = calloc(1, bytes ? bytes : 1);
  if (!made) abort();
  return made;
}

/* Eight bytes say what the piece is like: bits, four widths, units, states, whether devices are chosen. Units of six bytes follow (first
 * code, rows, group), and the columns. The rows are as many as the rest of the bytes hold. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < HEADER) return 0;
  size_t units = data[5] % 8;
  if (size < HEADER + units * UNIT) return 0;
  const uint8_t *at = data + HEADER;
  uint64_t *first = room(units * sizeof *first), *entries = room(units * sizeof *entries);
  int64_t *group = room(units * sizeof *group);
  for (size_t i = 0; i < units; i++, at += UNIT) {
    first[i] = (uint64_t)at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 56;
    entries[i] = (uint64_t)at[3] | (uint64_t)at[4] << 62;
    group[i] = (int64_t)at[5] % 4 - 1;
  }
  size_t left = size - HEADER - units * UNIT, width = (size_t)data[1] + data[2] + data[3] + data[4];
  size_t rows = width ? left / width : data[7];
  uint8_t *columns = room(rows * width), *widths = room(4);
  memcpy(columns, at, rows * width);
  memcpy(widths, data + 1, 4);
  const int32_t slot[HIGH - LOW + 1] = {1, -1, 0, 2, SLOTS};
  const int64_t count_from[SLOTS] = {0, 2, INT64_MAX};
  size_t states = 1 + data[6] % 2, places = GROUPS * SLOTS * CELLS * states;
  uint64_t *plus = room(places * sizeof *plus), *minus = room(places * sizeof *minus);
  peel_device_sums sums = {plus, minus, GROUPS, SLOTS, CELLS, states, LOW, HIGH, data[7] % 2 ? slot : NULL, count_from};
  peel_rollup_piece piece = {columns, rows, widths, data[0], first, entries, group, units};
  peel_device_sums_add(&sums, &piece);
  void *made[] = {first, entries, group, columns, widths, plus, minus};
  for (size_t i = 0; i < sizeof made / sizeof *made; i++) free(made[i]);
  return 0;
}
