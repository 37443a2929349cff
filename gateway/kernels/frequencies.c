/* SPDX-License-Identifier: MIT */
/* Bets that a report says what its unit's last reports said most, or not what they said least: made only where they did so more often than
 * an honest device, and the larger the further beyond. A bet on what every unit says most (predictions.c) loses where a device is not sure
 * of itself what it wins where it is too sure; these are not made there. */
#include "bet_kinds.h"
#include "capital.h"

/* What is risked would be best if a unit's shares were as counted so far, and in these many more reports at the bound. */
#define DOUBT 16

typedef struct {
  uint32_t *clock;
  bet *bets;
  uint8_t *count; /* of each symbol, unit by unit */
} view;

static view view_of(uint8_t *part) {
  view v;
  v.clock = (uint32_t *)part;
  v.bets = (bet *)(v.clock + 1);
  v.count = (uint8_t *)(v.bets + PEEL_E_PROCESS_FREQUENCIES);
  return v;
}

size_t frequencies_bytes(const peel_frequency_bets *frequencies) {
  if (!frequencies->units) return 0;
  return (4 + PEEL_E_PROCESS_FREQUENCIES * sizeof(bet) + (size_t)frequencies->units * frequencies->symbols + 7) / 8 * 8;
}

static double bound_of(const peel_frequency_bets *frequencies, uint32_t which) {
  return (which == PEEL_E_PROCESS_OFTEN ? frequencies->most : 1.0 - frequencies->least) * HAIR;
}

/* Bet that once more is right what was right so often of all that the unit said. Returns what the bet then holds. */
static double play_share(bet *b, double stake, uint32_t often, uint32_t said, int right, double bound, uint32_t now) {
  double beyond = (double)often - bound * (double)said;
  if (!(beyond > 0)) return bet_play(b, stake, NO_BET, bound, now);
  double risked = beyond / ((double)(said + DOUBT) * (1.0 - bound)); /* less than 1, as often is said at most */
  return bet_play_some(b, stake, risked, right ? RIGHT : WRONG, bound, now);
}

static void remember(uint8_t *count, const peel_frequency_bets *frequencies, uint32_t symbol) {
  if (count[symbol] >= frequencies->full)
    for (uint32_t i = 0; i < frequencies->symbols; i++) count[i] /= 2;
  count[symbol]++;
}

double frequencies_play(uint8_t *part, const peel_frequency_bets *frequencies, uint32_t unit, uint32_t symbol, uint32_t now) {
  view v = view_of(part);
  uint8_t *count = v.count + (size_t)unit * frequencies->symbols;
  uint32_t said = 0, first = 0, last = 0; /* the symbol that was said most, and least: the lower one, and the higher one, among equals */
  for (uint32_t i = 0; i < frequencies->symbols; i++) {
    said += count[i];
    if (count[i] > count[first]) first = i;
    if (count[i] <= count[last]) last = i;
  }
  const uint32_t often[] = {count[first], said - count[last]};
  const int right[] = {symbol == first, symbol != last};
  double share = put_in(v.clock), held = 0;
  for (uint32_t which = 0; which < PEEL_E_PROCESS_FREQUENCIES; which++) {
    if (!(frequencies->capital[which] > 0)) continue;
    double stake = share * frequencies->capital[which];
    held += play_share(v.bets + which, stake, often[which], said, right[which], bound_of(frequencies, which), now);
  }
  remember(count, frequencies, symbol);
  return held;
}

void frequencies_reverse(uint8_t *part) {
  view v = view_of(part);
  reverse_each(v.clock, sizeof *v.clock, 1);
  reverse_bets(v.bets, PEEL_E_PROCESS_FREQUENCIES);
}

void frequencies_explain(peel_e_process_evidence *best, const uint8_t *part, const peel_frequency_bets *frequencies, double share) {
  view v = view_of((uint8_t *)part);
  for (uint32_t which = 0; which < PEEL_E_PROCESS_FREQUENCIES; which++) {
    double capital = capital_sum(v.bets[which].capital, PEEL_E_PROCESS_FRACTIONS) * share;
    if (!(capital > best->capital)) continue;
    *best = (peel_e_process_evidence){
        .part = PEEL_E_PROCESS_PART_FREQUENCIES, .bet = which, .bound = bound_of(frequencies, which), .capital = capital};
    best->events = v.bets[which].events, best->trials = v.bets[which].trials, best->since = v.bets[which].since;
  }
}
