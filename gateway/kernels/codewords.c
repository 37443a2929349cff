/* SPDX-License-Identifier: MIT */
#include "codewords.h"

#include <string.h>

#define WORD sizeof(uint64_t)

/* The first and the last forty trits tell codewords apart; whatever else falls on a slot is compared in full. Words differ with the byte
 * order of the machine, and stay on it. */
static size_t slot_of(const peel_codewords *codewords, const uint8_t *packed) {
  uint64_t first = 0, last = 0;
  if (codewords->bytes >= WORD) {
    memcpy(&first, packed, WORD);
    memcpy(&last, packed + codewords->bytes - WORD, WORD);
  } else {
    memcpy(&first, packed, codewords->bytes);
  }
  uint64_t mixed = (first ^ last >> 29) * 0x9e3779b97f4a7c15 + last * 0xc2b2ae3d27d4eb4f;
  return (size_t)(mixed ^ mixed >> 32) & (codewords->slot_count - 1);
}

static const uint8_t *codeword_at(const peel_codewords *codewords, uint32_t place) { return codewords->packed + place * codewords->bytes; }

/* The slot that a codeword is in, or the free one that it would go to. */
static size_t find(const peel_codewords *codewords, const uint8_t *packed) {
  size_t slot = slot_of(codewords, packed);
  uint32_t taken;
  while ((taken = codewords->slots[slot]) && memcmp(codeword_at(codewords, taken - 1), packed, codewords->bytes) != 0)
    slot = (slot + 1) & (codewords->slot_count - 1);
  return slot;
}

void peel_codewords_enter(const peel_codewords *codewords) {
  for (uint32_t place = 0; place < codewords->count; place++) codewords->slots[find(codewords, codeword_at(codewords, place))] = place + 1;
}

size_t peel_codewords_decode(int64_t *index, int64_t *sign, float *residual, const peel_codewords *codewords, int32_t profile,
                             const uint8_t *packed, size_t stride, const int32_t *profiles, const int8_t *codes, size_t count) {
  size_t others = 0;
  for (size_t row = 0; row < count; row++) {
    if (profiles[row] != profile || codes[row] != 0) continue;
    uint32_t found = codewords->slots[find(codewords, packed + row * stride)];
    if (!found) {
      others++;
      continue;
    }
    index[row] = codewords->index[found - 1];
    sign[row] = codewords->sign[found - 1];
    residual[row] = codewords->residual[found - 1];
  }
  return others;
}
