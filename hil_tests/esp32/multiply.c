/* SPDX-License-Identifier: MIT */
#include "multiply.h"

/* volatile, or the compiler would see what this computes and call __muldi3 for it, which calls this. */
uint32_t multiply_high(uint32_t a, uint32_t b) {
  uint32_t a0 = a & 0xffff, a1 = a >> 16, b0 = b & 0xffff, b1 = b >> 16;
  volatile uint32_t middle = a0 * b1 + (a0 * b0 >> 16);
  volatile uint32_t carry = (middle & 0xffff) + a1 * b0;
  return a1 * b1 + (middle >> 16) + (carry >> 16);
}

uint64_t __muldi3(uint64_t a, uint64_t b) {
  uint32_t crossed = (uint32_t)(a >> 32) * (uint32_t)b + (uint32_t)a * (uint32_t)(b >> 32);
  uint32_t high = multiply_high((uint32_t)a, (uint32_t)b) + crossed;
  return (uint64_t)high << 32 | (uint32_t)((uint32_t)a * (uint32_t)b);
}
