/* SPDX-License-Identifier: MIT */
/* The capital of one bet: spread over fractions, and put in a little at every toss.
 *
 * A bet pays x per unit staked: (1 - b)/b if it was right, where b bounds the probability of that, -1 if it was wrong, 0 if it was not
 * made. At toss n each fraction c of a bet does
 *
 *     V <- (V + w_n) (1 + c x)
 *
 * so E[V] <= V + w_n for every honest device. Rounding is always down: the product is taken a hair short (KEPT covers the rounding of every
 * double that it is made of), then cut to a float. */
#ifndef PEEL_CAPITAL_H
#define PEEL_CAPITAL_H

#include <string.h>

#include "bet_kinds.h"

#define KEPT (1.0 - 0x1p-46)
#define HAIR (1.0 + 0x1p-46) /* a bound that was computed is rounded up */
#define CEILING 0x1p100      /* far beyond any limit, far below a float's largest value */

static const double fractions[PEEL_E_PROCESS_FRACTIONS] = {0.95, 0.5, 0.27, 0.14, 0.06, 0.025, 0.01, 0.003};

/* What is put in at toss n = 1, 2, ... of a capital of 1: the tosses 2^b to 2^(b+1) - 1 share 1/((b + 1)(b + 2)), so all shares add up to
 * 1. Half of everything at the first toss, about 1/(n log2(n)^2) at the nth: for ever, so that a device that turns late is found as well.
 * (As long as a clock can count: at its end nothing is put in any more.) */
static double put_in(uint32_t *clock) {
  uint32_t b = 0;
  if (*clock == UINT32_MAX) return 0.0;
  uint32_t n = ++*clock;
  while (n >> b > 1) b++;
  return 1.0 / ((double)((uint64_t)1 << b) * (double)((b + 1) * (b + 2)));
}

static double cut(double value) {
  uint64_t bits;
  if (value > CEILING) return CEILING;
  memcpy(&bits, &value, 8);
  bits &= ~(uint64_t)0x1fffffff; /* 29 of a double's 52 bits: what is left is a float */
  memcpy(&value, &bits, 8);
  return value;
}

static double capital_sum(const float *capital, uint32_t count) {
  double sum = 0;
  for (uint32_t f = 0; f < count; f++) sum += (double)capital[f];
  return sum;
}

/* Add a stake to a capital, in equal parts for each of count fractions from the largest to small ones, and bet. Returns the new sum. */
static double capital_play(float *capital, uint32_t count, double stake, double pays) {
  const double part = stake / count;
  const uint32_t step = PEEL_E_PROCESS_FRACTIONS / count;
  for (uint32_t f = 0; f < count; f++) capital[f] = (float)cut(((double)capital[f] + part) * (1.0 + fractions[f * step] * pays) * KEPT);
  return capital_sum(capital, count);
}

enum { NO_BET = -1, WRONG, RIGHT };

/* What a bet with this bound pays. One that cannot lose pays nothing. */
static double paid(int outcome, double bound) {
  if (outcome == NO_BET || bound >= 1.0) return 0.0;
  return outcome == RIGHT ? (1.0 - bound) / bound : -1.0;
}

/* One bet: its capital, and how it has gone since it was last right less often than an honest device may make it: that is the evidence. */
typedef struct {
  uint32_t since; /* number, less the state's first one */
  uint32_t trials;
  uint32_t events;
  float capital[PEEL_E_PROCESS_FRACTIONS];
} bet;

/* Put stake in and play, with some of what each fraction risks otherwise, 0 to 1; with no bet the stake only waits. Returns what the bet
 * then holds. */
static double bet_play_some(bet *b, double stake, double some, int outcome, double bound, uint32_t now) {
  if (outcome != NO_BET) {
    if ((double)b->events < bound * (double)b->trials || !b->trials) b->since = now, b->trials = b->events = 0;
    b->trials++;
    b->events += outcome == RIGHT;
  }
  return capital_play(b->capital, PEEL_E_PROCESS_FRACTIONS, stake, some * paid(outcome, bound));
}

static double bet_play(bet *b, double stake, int outcome, double bound, uint32_t now) {
  return bet_play_some(b, stake, 1.0, outcome, bound, now);
}

static inline void reverse_bets(bet *bets, size_t count) { reverse_each(bets, sizeof(uint32_t), count * (sizeof(bet) / sizeof(uint32_t))); }

/* Every so many tosses one of the windows restarts. One that is right about a device grows rich and stays; so there is always one
 * that began soon after a device turned, whenever that was, and that is not confused by what the device was before.
 *
 * The richest of all is kept. Of the others the one goes that is poorest at the larger fractions: the small ones remember for long what was
 * luck. */
#define WINDOW_TOSSES 64
#define LARGER_FRACTIONS 5

typedef struct {
  double capital;
  double lately;
} standing;

static inline void standing_add(standing *s, const bet *b) {
  s->capital += capital_sum(b->capital, PEEL_E_PROCESS_FRACTIONS);
  s->lately += capital_sum(b->capital, LARGER_FRACTIONS);
}

/* Of two or more. */
static inline uint32_t outdated(const standing *standings, uint32_t count) {
  uint32_t richest = 0, poorest = 0;
  for (uint32_t i = 1; i < count; i++)
    if (standings[i].capital > standings[richest].capital) richest = i;
  if (richest == 0) poorest = 1;
  for (uint32_t i = poorest + 1; i < count; i++)
    if (i != richest && standings[i].lately < standings[poorest].lately) poorest = i;
  return poorest;
}

#endif
