/* SPDX-License-Identifier: MIT */
/* Little-endian loads and stores without alignment, host order or struct casts; and erasing. */
#ifndef PEEL_BYTES_H
#define PEEL_BYTES_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) || (defined(__aarch64__) && !defined(__AARCH64EB__))

/* One instruction each, as compilers do not always merge eight byte accesses: reports are made and opened 1.3 times as fast. */
static inline uint32_t load32(const uint8_t b[4]) {
  uint32_t x;
  memcpy(&x, b, sizeof x);
  return x;
}

static inline uint64_t load64(const uint8_t b[8]) {
  uint64_t x;
  memcpy(&x, b, sizeof x);
  return x;
}

static inline void store32(uint8_t b[4], uint32_t x) { memcpy(b, &x, sizeof x); }

static inline void store64(uint8_t b[8], uint64_t x) { memcpy(b, &x, sizeof x); }

#else

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

#endif

/* Erase memory that is not read again. The empty instruction keeps the compiler from removing the memset. */
static inline void wipe(void *data, size_t len) {
#if defined(__GNUC__)
  if (len) memset(data, 0, len); /* the C standard forbids a pointer past an object even for 0 bytes */
  __asm__ volatile("" : : "r"(data) : "memory");
#else
  volatile uint8_t *p = data;
  while (len--) *p++ = 0;
#endif
}

/* x / 5 for x up to 2^13: small cores divide slowly, or by a library call */
static inline uint32_t fifth(uint32_t x) { return x * 6554 >> 15; }

#endif
