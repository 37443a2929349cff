/* SPDX-License-Identifier: MIT */
#include "bets.h"

#include <string.h>

#include "parts.h"

typedef struct {
  uint64_t first;                /* number of the first event, 0 before it */
  double worth[PEEL_BETS_PARTS]; /* what the bets of each part hold; of single units, what the last report's holds */
} head;

typedef struct {
  uint64_t number;
  uint32_t unit;
  uint32_t symbol;
  int cohort;
  uint8_t kind;
} event;

size_t peel_bets_lay_out(peel_bets_game *game) {
  size_t at = sizeof(head);
  game->faces.offset = at;
  at += faces_bytes(&game->faces);
  peel_bets_sets *const parts[] = {&game->reports, &game->gaps, &game->symbols, &game->late};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    parts[i]->offset = at;
    at += sets_bytes(parts[i]);
  }
  game->candidates.offset = at;
  at += candidates_bytes(&game->candidates);
  game->shares.offset = at;
  at += shares_bytes(&game->shares);
  return game->bytes = at;
}

static event event_at(const peel_bets_events *events, size_t i) {
  return (event){events->number[i], events->unit[i], events->symbol[i], events->cohort[i], events->kind[i]};
}

/* Two supermartingales share alpha; a device is exposed by either. */
static double wealth_of(const head *h, const peel_bets_game *game, double units) {
  double punctual = h->worth[PEEL_BETS_PART_FACES] + units + h->worth[PEEL_BETS_PART_REPORTS] + h->worth[PEEL_BETS_PART_GAPS] +
                    h->worth[PEEL_BETS_PART_SYMBOLS] + h->worth[PEEL_BETS_PART_CANDIDATES] + h->worth[PEEL_BETS_PART_SHARES];
  double late = h->worth[PEEL_BETS_PART_LATE];
  punctual *= 1.0 - game->late_share;
  late *= game->late_share;
  return punctual > late ? punctual : late;
}

static void bet_on_item(uint8_t *state, const peel_bets_sets *sets, int part, uint32_t item, uint32_t now) {
  if (sets->items) ((head *)state)->worth[part] = sets_play(state + sets->offset, sets, item, now);
}

/* Returns the wealth, with of all single units only the one that the event is about: never more than there is. */
static double play(uint8_t *state, const peel_bets_game *game, const event *e) {
  head *h = (head *)state;
  if (!h->first) h->first = e->number;
  uint64_t later = e->number > h->first ? e->number - h->first : 0;
  uint32_t now = later < UINT32_MAX ? (uint32_t)later : UINT32_MAX;
  h->worth[PEEL_BETS_PART_UNIT] = 0;
  if (e->kind == PEEL_BETS_GAP) {
    bet_on_item(state, &game->gaps, PEEL_BETS_PART_GAPS, e->unit, now);
    return wealth_of(h, game, 0);
  }
  if (e->kind == PEEL_BETS_FRESH) bet_on_item(state, &game->reports, PEEL_BETS_PART_REPORTS, e->unit, now);
  if (e->kind == PEEL_BETS_TARDY) bet_on_item(state, &game->late, PEEL_BETS_PART_LATE, e->unit, now);
  bet_on_item(state, &game->symbols, PEEL_BETS_PART_SYMBOLS, e->symbol, now);
  if (game->candidates.categories)
    h->worth[PEEL_BETS_PART_CANDIDATES] = candidates_play(state + game->candidates.offset, &game->candidates, e->unit, e->symbol, now);
  if (game->shares.units)
    h->worth[PEEL_BETS_PART_SHARES] = shares_play(state + game->shares.offset, &game->shares, e->unit, e->symbol, now);
  if (game->faces.units) {
    faces_worth worth = faces_play(state + game->faces.offset, &game->faces, e->unit, e->symbol, e->cohort, now);
    h->worth[PEEL_BETS_PART_FACES] = worth.pooled;
    h->worth[PEEL_BETS_PART_UNIT] = worth.unit;
  }
  return wealth_of(h, game, h->worth[PEEL_BETS_PART_UNIT]);
}

void peel_bets_update(int64_t *crossed, uint8_t *states, const uint64_t *places, const peel_bets_game *game,
                      const peel_bets_events *events) {
  for (size_t i = 0; i < events->count; i++) {
    uint32_t row = events->row[i];
    if (crossed[row] >= 0) continue;
    event e = event_at(events, i);
    if (play(states + places[row] * game->bytes, game, &e) >= game->limit) crossed[row] = (int64_t)i;
  }
}

static double peek(uint8_t *scratch, const uint8_t *state, const peel_bets_game *game, const event *e) {
  memcpy(scratch, state, game->bytes);
  return play(scratch, game, e);
}

void peel_bets_peek(double *wealth, uint8_t *scratch, const uint8_t *states, const peel_bets_game *game, const peel_bets_events *events) {
  for (size_t i = 0; i < events->count; i++) {
    event e = event_at(events, i);
    wealth[i] = peek(scratch, states + events->row[i] * game->bytes, game, &e);
  }
}

size_t peel_bets_walk(uint8_t *took, uint8_t *scratch, uint8_t *state, const peel_bets_game *game, const peel_bets_events *wanted,
                      const peel_bets_events *other, double ceiling, double price) {
  for (size_t i = 0; i < wanted->count; i++) {
    event first = event_at(wanted, i), second = event_at(other, i);
    double wealth = peek(scratch, state, game, &first), spared = peek(scratch, state, game, &second);
    took[i] = wealth < spared || (wealth < ceiling && wealth <= price * spared);
    if (play(state, game, took[i] ? &first : &second) >= game->limit) return i + 1;
  }
  return wanted->count;
}

double peel_bets_wealth(const uint8_t *state, const peel_bets_game *game) {
  double units = game->faces.units ? faces_unit_worth(state + game->faces.offset, &game->faces) : 0;
  return wealth_of((const head *)state, game, units);
}

int peel_bets_over(const uint8_t *state, const peel_bets_game *game) {
  const head *h = (const head *)state;
  return wealth_of(h, game, h->worth[PEEL_BETS_PART_UNIT]) >= game->limit;
}

static const peel_bets_sets *sets_of(const peel_bets_game *game, uint32_t part) {
  switch (part) {
    case PEEL_BETS_PART_REPORTS:
      return &game->reports;
    case PEEL_BETS_PART_GAPS:
      return &game->gaps;
    case PEEL_BETS_PART_SYMBOLS:
      return &game->symbols;
    case PEEL_BETS_PART_LATE:
      return &game->late;
    default:
      return NULL;
  }
}

peel_bets_evidence peel_bets_explain(const uint8_t *state, const peel_bets_game *game) {
  peel_bets_evidence best = {.part = PEEL_BETS_PARTS};
  double punctual = 1.0 - game->late_share;
  if (game->faces.units) faces_explain(&best, state + game->faces.offset, &game->faces);
  best.wealth *= punctual;
  for (uint32_t part = 0; part < PEEL_BETS_PARTS; part++) {
    const peel_bets_sets *sets = sets_of(game, part);
    double share = part == PEEL_BETS_PART_LATE ? game->late_share : punctual;
    if (sets && sets->items) sets_explain(&best, state + sets->offset, sets, part, share);
  }
  if (game->candidates.categories) candidates_explain(&best, state + game->candidates.offset, &game->candidates, punctual);
  if (game->shares.units) shares_explain(&best, state + game->shares.offset, &game->shares, punctual);
  best.since += ((const head *)state)->first;
  return best;
}

void peel_bets_members(uint32_t *items, const uint8_t *state, const peel_bets_game *game, const peel_bets_evidence *evidence) {
  const peel_bets_sets *sets = sets_of(game, evidence->part);
  if (evidence->part == PEEL_BETS_PART_CANDIDATES)
    candidates_members(items, state + game->candidates.offset, &game->candidates, evidence->bet, evidence->size);
  else if (sets && sets->items)
    sets_members(items, state + sets->offset, sets, evidence->bet, evidence->size);
}
