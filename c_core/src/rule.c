/* SPDX-License-Identifier: MIT */
/* The rule: epsilon as a Q31 probability, with integer arithmetic only, never rounded up (SPEC section 5). */
#include "peel.h"

/* E[i] = ceil(2^64 * exp(-2^(i - 20))) */
static const uint64_t exp_minus[25] = {
    0xfffff000007ffffe, 0xffffe00001ffffeb, 0xffffc00007ffff56, 0xffff80001ffffaab, 0xffff00007fffd556,
    0xfffe0001fffeaaac, 0xfffc0007fff55560, 0xfff8001fffaaab56, 0xfff0007ffd556000, 0xffe001ffeaab5552,
    0xffc007ff555fff78, 0xff801ffaab554446, 0xff007fd55ffdde39, 0xfe01feab551127cc, 0xfc07f55ff77d2494,
    0xf81fab5445aebc8b, 0xf07d5fde38151e73, 0xe1eb51276c110c3d, 0xc75f7cf564105744, 0x9b4597e37cb04ff4,
    0x5e2d58d8b3bcdf1b, 0x22a555477f039740, 0x04b0556e084f3d1e, 0x0015fc21041027ad, 0x000001e355bbaee9,
};

static void multiply(uint64_t *high, uint64_t *low, uint64_t a, uint64_t b) {
  uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
  uint64_t mid = ah * bl + (al * bl >> 32);
  uint64_t mid2 = al * bh + (uint32_t)mid;
  *high = ah * bh + (mid >> 32) + (mid2 >> 32);
  *low = mid2 << 32 | (uint32_t)(al * bl);
}

/* An upper bound of 2^64 * exp(-epsilon / 2^20), within 2^-58 of it. */
static uint64_t exp_bound(uint32_t epsilon) {
  uint64_t t = 0;
  for (unsigned i = 0; i < 25; i++) {
    if (!(epsilon >> i & 1)) continue;
    if (t == 0) {
      t = exp_minus[i];
    } else {
      uint64_t high, low;
      multiply(&high, &low, t, exp_minus[i]);
      t = high + (low != 0);
    }
  }
  return t;
}

/* Whether (2^31 + (k - 1) rule) t <= (2^31 - rule) 2^64. */
static int private_enough(uint32_t rule, uint32_t k, uint64_t t) {
  uint64_t high, low;
  uint64_t limit = PEEL_RULE_ONE - rule;
  multiply(&high, &low, PEEL_RULE_ONE + (uint64_t)(k - 1) * rule, t);
  return high < limit || (high == limit && low == 0);
}

int peel_rule(uint32_t *rule, uint32_t epsilon, uint32_t k) {
  uint32_t largest = 0;
  if (epsilon == 0 || epsilon > PEEL_EPSILON_MAX) return PEEL_E_EPSILON;
  if (k < 2 || k > PEEL_MAX_WIDTH) return PEEL_E_WIDTH;
  uint64_t t = exp_bound(epsilon);
  for (uint32_t bit = PEEL_RULE_ONE >> 1; bit; bit >>= 1) {
    if (private_enough(largest | bit, k, t)) largest |= bit;
  }
  if (largest == 0) return PEEL_E_EPSILON;
  *rule = largest;
  return PEEL_OK;
}
