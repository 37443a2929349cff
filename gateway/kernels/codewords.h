/* SPDX-License-Identifier: MIT */
/* The codewords of a projection, found by their bytes: what reconstruction says of each is known before a report comes, so that only what
 * is no codeword has to be reconstructed. */
#ifndef PEEL_CODEWORDS_H
#define PEEL_CODEWORDS_H

#include <stddef.h>
#include <stdint.h>

/* count codewords of so many bytes each, one behind the other, and what is said of them. slots finds them: twice as many as codewords at
 * least, a power of two, each 0 or 1 + the place of a codeword. */
typedef struct {
  const uint8_t *packed;
  size_t bytes;
  size_t count;
  const int64_t *index;
  const int64_t *sign;
  const float *residual;
  uint32_t *slots;
  size_t slot_count;
} peel_codewords;

/* Fill the slots, which are 0. */
void peel_codewords_enter(const peel_codewords *codewords);

/* Look count reports up, one row each: their packed trits, stride bytes apart, the positions of their profiles, and codes that are 0 where
 * there is something to decode. What is said of codewords goes into the rows of a profile's reports; other rows stay as they are. Returns
 * how many reports of the profile are no codeword. */
size_t peel_codewords_decode(int64_t *index, int64_t *sign, float *residual, const peel_codewords *codewords, int32_t profile,
                             const uint8_t *packed, size_t stride, const int32_t *profiles, const int8_t *codes, size_t count);

#endif
