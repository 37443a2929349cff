/* SPDX-License-Identifier: MIT */
#include "packing.h"

#include <string.h>

#define WORD 8
#define LONGEST_RUN 255

static int is_zero(const uint8_t *word) {
  static const uint8_t none[WORD] = {0};
  return memcmp(word, none, WORD) == 0;
}

/* How many words of zeros follow this one, of those before end. */
static size_t zeros_after(const uint8_t *word, const uint8_t *end) {
  size_t run = 0;
  while (run < LONGEST_RUN && (word += WORD) < end && is_zero(word)) run++;
  return run;
}

/* Returns how many bytes it takes, or 0 where that is not less than the record has. */
static size_t pack(uint8_t *out, const uint8_t *record, size_t bytes) {
  const uint8_t *end = record + bytes;
  size_t used = 0;
  while (record < end) {
    if (used + 1 + WORD >= bytes) return 0;
    uint8_t *mask = out + used++;
    *mask = 0;
    for (int i = 0; i < WORD; i++) { /* what is not wanted is written over */
      out[used] = record[i];
      used += record[i] != 0;
      *mask |= (uint8_t)((record[i] != 0) << i);
    }
    if (!*mask) {
      size_t run = zeros_after(record, end);
      out[used++] = (uint8_t)run;
      record += WORD * run;
    }
    record += WORD;
  }
  return used;
}

void peel_pack(uint8_t *out, uint64_t *ends, const uint8_t *records, const uint64_t *places, size_t count, size_t bytes) {
  uint64_t at = 0;
  for (size_t i = 0; i < count; i++) {
    const uint8_t *record = records + places[i] * bytes;
    size_t used = pack(out + at, record, bytes);
    if (!used) memcpy(out + at, record, used = bytes);
    ends[i] = at += used;
  }
}

static int unpack(uint8_t *record, size_t bytes, const uint8_t *packed, const uint8_t *packed_end) {
  uint8_t *end = record + bytes;
  memset(record, 0, bytes);
  while (packed < packed_end && record < end) {
    unsigned mask = *packed++;
    for (int i = 0; i < WORD && mask >> i; i++) {
      if (!(mask >> i & 1)) continue;
      if (packed == packed_end) return 0;
      record[i] = *packed++;
    }
    if (!mask) {
      if (packed == packed_end || *packed >= (size_t)(end - record) / WORD) return 0;
      record += WORD * (size_t)*packed++;
    }
    record += WORD;
  }
  return packed == packed_end && record == end;
}

size_t peel_unpack(uint8_t *records, const uint64_t *places, const uint8_t *packed, const uint64_t *ends, size_t count, size_t bytes) {
  uint64_t at = 0;
  for (size_t i = 0; i < count; at = ends[i], i++) {
    uint8_t *record = records + places[i] * bytes;
    if (ends[i] - at == bytes) {
      memcpy(record, packed + at, bytes);
    } else if (!unpack(record, bytes, packed + at, packed + ends[i])) {
      return i;
    }
  }
  return count;
}
