/* SPDX-License-Identifier: MIT */
/* Multiplication on QEMU's generic cores, which lack the ESP32's MULUH. */
#ifndef PEEL_ESP32_MULTIPLY_H
#define PEEL_ESP32_MULTIPLY_H

#include <stdint.h>

/* The upper half of a product, as MULUH computes it. */
uint32_t multiply_high(uint32_t a, uint32_t b);

/* What the compiler calls for 64-bit products once it is told to do without MULUH. */
uint64_t __muldi3(uint64_t a, uint64_t b);

#endif
