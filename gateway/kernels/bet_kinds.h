/* SPDX-License-Identifier: MIT */
/* The parts of a state, as e_process.c puts them together. Each part has its own place in the state, and its own clock. */
#ifndef PEEL_BET_KINDS_H
#define PEEL_BET_KINDS_H

#include "e_process.h"

/* Bytes that a part takes, a multiple of 8. */
size_t predictions_bytes(const peel_prediction_bets *predictions);
size_t sets_bytes(const peel_set_bets *sets);
size_t heavy_hitters_bytes(const peel_heavy_hitter_bets *heavy_hitters);
size_t frequencies_bytes(const peel_frequency_bets *frequencies);

typedef struct {
  double pooled; /* what the bets over all units hold */
  double unit;   /* what the bet on this unit alone holds */
} prediction_capital;

/* Bet on the symbol of a report, then remember it. now is its number, less the state's first one. */
prediction_capital predictions_play(uint8_t *part, const peel_prediction_bets *predictions, uint32_t unit, uint32_t symbol, int cohort,
                                    uint32_t now);

/* Bet on the item, then remember it. Returns what the bets hold. */
double sets_play(uint8_t *part, const peel_set_bets *sets, uint32_t item, uint32_t now);

/* Bet on what a report supports, then remember it. Returns what the bets hold. */
double heavy_hitters_play(uint8_t *part, const peel_heavy_hitter_bets *heavy_hitters, uint32_t hash, uint32_t symbol, uint32_t now);

/* Bet on the symbol of a report, then count it. Returns what the bets hold. */
double frequencies_play(uint8_t *part, const peel_frequency_bets *frequencies, uint32_t unit, uint32_t symbol, uint32_t now);

/* Reverse the bytes of each of count numbers of so many bytes. */
static inline void reverse_each(void *numbers, size_t bytes, size_t count) {
  for (uint8_t *at = numbers; count > 0; count--, at += bytes)
    for (size_t i = 0; i < bytes / 2; i++) {
      uint8_t kept = at[i];
      at[i] = at[bytes - 1 - i], at[bytes - 1 - i] = kept;
    }
}

/* The same for every number of a part. */
void predictions_reverse(uint8_t *part, const peel_prediction_bets *predictions);
void sets_reverse(uint8_t *part, const peel_set_bets *sets);
void heavy_hitters_reverse(uint8_t *part, const peel_heavy_hitter_bets *heavy_hitters);
void frequencies_reverse(uint8_t *part);

/* What the bets on single units hold, all together. */
double predictions_unit_capital(const uint8_t *part, const peel_prediction_bets *predictions);

/* Replace best by a bet of this part, if one holds more; since is relative to the state's first number. */
void predictions_explain(peel_e_process_evidence *best, const uint8_t *part, const peel_prediction_bets *predictions, double share);
void sets_explain(peel_e_process_evidence *best, const uint8_t *part, const peel_set_bets *sets, uint32_t which, double share);
void heavy_hitters_explain(peel_e_process_evidence *best, const uint8_t *part, const peel_heavy_hitter_bets *heavy_hitters, double share);
void frequencies_explain(peel_e_process_evidence *best, const uint8_t *part, const peel_frequency_bets *frequencies, double share);

/* The items of a predicted set, the most frequent first; the first heavy hitters of a list. */
void sets_members(uint32_t *items, const uint8_t *part, const peel_set_bets *sets, uint32_t memory, uint32_t size);
void heavy_hitters_members(uint32_t *categories, const uint8_t *part, const peel_heavy_hitter_bets *heavy_hitters, uint32_t which,
                           uint32_t size);

#endif
