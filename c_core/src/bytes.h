/* SPDX-License-Identifier: MIT */
/* Little-endian loads and stores, byte by byte: no alignment, no host order, no struct casts. */
#ifndef PEEL_BYTES_H
#define PEEL_BYTES_H

#include <stdint.h>

static inline uint32_t load32(const uint8_t b[4]) {
  return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline uint64_t load64(const uint8_t b[8]) { return (uint64_t)load32(b) | (uint64_t)load32(b + 4) << 32; }

static inline void store32(uint8_t b[4], uint32_t x) {
  b[0] = (uint8_t)x;
  b[1] = (uint8_t)(x >> 8);
  b[2] = (uint8_t)(x >> 16);
  b[3] = (uint8_t)(x >> 24);
}

static inline void store64(uint8_t b[8], uint64_t x) {
  store32(b, (uint32_t)x);
  store32(b + 4, (uint32_t)(x >> 32));
}

/* x / 5 for x up to 2^13: small cores divide slowly, or by a library call */
static inline uint32_t fifth(uint32_t x) { return x * 6554 >> 15; }

#endif
