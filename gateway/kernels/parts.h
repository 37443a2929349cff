/* SPDX-License-Identifier: MIT */
/* The parts of a state, as bets.c puts them together. Each part has its own place in the state, and its own clock. */
#ifndef PEEL_PARTS_H
#define PEEL_PARTS_H

#include "bets.h"

/* Bytes that a part takes, a multiple of 8. */
size_t faces_bytes(const peel_bets_faces *faces);
size_t sets_bytes(const peel_bets_sets *sets);
size_t candidates_bytes(const peel_bets_candidates *candidates);
size_t shares_bytes(const peel_bets_shares *shares);

typedef struct {
  double pooled; /* what the bets over all units hold */
  double unit;   /* what the bet on this unit alone holds */
} faces_worth;

/* Bet on the symbol of a report, then remember it. now is its number, less the state's first one. */
faces_worth faces_play(uint8_t *part, const peel_bets_faces *faces, uint32_t unit, uint32_t symbol, int cohort, uint32_t now);

/* Bet on the item, then remember it. Returns what the bets hold. */
double sets_play(uint8_t *part, const peel_bets_sets *sets, uint32_t item, uint32_t now);

/* Bet on what a report supports, then remember it. Returns what the bets hold. */
double candidates_play(uint8_t *part, const peel_bets_candidates *candidates, uint32_t hash, uint32_t symbol, uint32_t now);

/* Bet on the symbol of a report, then count it. Returns what the bets hold. */
double shares_play(uint8_t *part, const peel_bets_shares *shares, uint32_t unit, uint32_t symbol, uint32_t now);

/* What the bets on single units hold, all together. */
double faces_unit_worth(const uint8_t *part, const peel_bets_faces *faces);

/* Replace best by a bet of this part, if one holds more; since is relative to the state's first number. */
void faces_explain(peel_bets_evidence *best, const uint8_t *part, const peel_bets_faces *faces);
void sets_explain(peel_bets_evidence *best, const uint8_t *part, const peel_bets_sets *sets, uint32_t which, double share);
void candidates_explain(peel_bets_evidence *best, const uint8_t *part, const peel_bets_candidates *candidates, double share);
void shares_explain(peel_bets_evidence *best, const uint8_t *part, const peel_bets_shares *shares, double share);

/* The items of a predicted set, the most frequent first; the first candidates of a list. */
void sets_members(uint32_t *items, const uint8_t *part, const peel_bets_sets *sets, uint32_t memory, uint32_t size);
void candidates_members(uint32_t *categories, const uint8_t *part, const peel_bets_candidates *candidates, uint32_t which, uint32_t size);

#endif
