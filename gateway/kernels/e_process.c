/* SPDX-License-Identifier: MIT */
#include "e_process.h"

#include <string.h>

#include "bet_kinds.h"

typedef struct {
  uint64_t first;                       /* number of the first event, 0 before it */
  double capital[PEEL_E_PROCESS_PARTS]; /* what the bets of each part hold; of single units, what the last report's holds */
} head;

typedef struct {
  uint64_t number;
  uint32_t unit;
  uint32_t symbol;
  int cohort;
  uint8_t kind;
} event;

size_t peel_e_process_lay_out(peel_e_process *process) {
  size_t at = sizeof(head);
  process->predictions.offset = at;
  at += predictions_bytes(&process->predictions);
  peel_set_bets *const parts[] = {&process->reports, &process->gaps, &process->symbol_sets, &process->late};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    parts[i]->offset = at;
    at += sets_bytes(parts[i]);
  }
  process->heavy_hitters.offset = at;
  at += heavy_hitters_bytes(&process->heavy_hitters);
  process->frequencies.offset = at;
  at += frequencies_bytes(&process->frequencies);
  return process->bytes = at;
}

static event event_at(const peel_e_process_events *events, size_t i) {
  return (event){events->number[i], events->unit[i], events->symbol[i], events->cohort[i], events->kind[i]};
}

/* Two supermartingales share alpha; a device is exposed by either. */
static double capital_of(const head *h, const peel_e_process *process, double units) {
  double punctual = h->capital[PEEL_E_PROCESS_PART_PREDICTIONS] + units + h->capital[PEEL_E_PROCESS_PART_REPORTS] +
                    h->capital[PEEL_E_PROCESS_PART_GAPS] + h->capital[PEEL_E_PROCESS_PART_SYMBOLS] +
                    h->capital[PEEL_E_PROCESS_PART_HEAVY_HITTERS] + h->capital[PEEL_E_PROCESS_PART_FREQUENCIES];
  double late = h->capital[PEEL_E_PROCESS_PART_LATE];
  punctual *= 1.0 - process->late_share;
  late *= process->late_share;
  return punctual > late ? punctual : late;
}

static void bet_on_item(uint8_t *state, const peel_set_bets *sets, int part, uint32_t item, uint32_t now) {
  if (sets->items) ((head *)state)->capital[part] = sets_play(state + sets->offset, sets, item, now);
}

/* Returns the capital, with of all single units only the one that the event is about: never more than there is. */
static double play(uint8_t *state, const peel_e_process *process, const event *e) {
  head *h = (head *)state;
  if (!h->first) h->first = e->number;
  uint64_t later = e->number > h->first ? e->number - h->first : 0;
  uint32_t now = later < UINT32_MAX ? (uint32_t)later : UINT32_MAX;
  h->capital[PEEL_E_PROCESS_PART_UNIT] = 0;
  if (e->kind == PEEL_E_PROCESS_GAP) {
    bet_on_item(state, &process->gaps, PEEL_E_PROCESS_PART_GAPS, e->unit, now);
    return capital_of(h, process, 0);
  }
  if (e->kind == PEEL_E_PROCESS_FRESH) bet_on_item(state, &process->reports, PEEL_E_PROCESS_PART_REPORTS, e->unit, now);
  if (e->kind == PEEL_E_PROCESS_TARDY) bet_on_item(state, &process->late, PEEL_E_PROCESS_PART_LATE, e->unit, now);
  bet_on_item(state, &process->symbol_sets, PEEL_E_PROCESS_PART_SYMBOLS, e->symbol, now);
  if (process->heavy_hitters.categories)
    h->capital[PEEL_E_PROCESS_PART_HEAVY_HITTERS] =
        heavy_hitters_play(state + process->heavy_hitters.offset, &process->heavy_hitters, e->unit, e->symbol, now);
  if (process->frequencies.units)
    h->capital[PEEL_E_PROCESS_PART_FREQUENCIES] =
        frequencies_play(state + process->frequencies.offset, &process->frequencies, e->unit, e->symbol, now);
  if (process->predictions.units) {
    prediction_capital capital =
        predictions_play(state + process->predictions.offset, &process->predictions, e->unit, e->symbol, e->cohort, now);
    h->capital[PEEL_E_PROCESS_PART_PREDICTIONS] = capital.pooled;
    h->capital[PEEL_E_PROCESS_PART_UNIT] = capital.unit;
  }
  return capital_of(h, process, h->capital[PEEL_E_PROCESS_PART_UNIT]);
}

void peel_e_process_update(int64_t *crossed, uint8_t *states, const uint64_t *places, const peel_e_process *process,
                           const peel_e_process_events *events) {
  for (size_t i = 0; i < events->count; i++) {
    uint32_t row = events->row[i];
    if (crossed[row] >= 0) continue;
    event e = event_at(events, i);
    if (play(states + places[row] * process->bytes, process, &e) >= process->limit) crossed[row] = (int64_t)i;
  }
}

static double peek(uint8_t *scratch, const uint8_t *state, const peel_e_process *process, const event *e) {
  memcpy(scratch, state, process->bytes);
  return play(scratch, process, e);
}

void peel_e_process_peek(double *capital, uint8_t *scratch, const uint8_t *states, const peel_e_process *process,
                         const peel_e_process_events *events) {
  for (size_t i = 0; i < events->count; i++) {
    event e = event_at(events, i);
    capital[i] = peek(scratch, states + events->row[i] * process->bytes, process, &e);
  }
}

size_t peel_e_process_walk(uint8_t *took, uint8_t *scratch, uint8_t *state, const peel_e_process *process,
                           const peel_e_process_events *wanted, const peel_e_process_events *other, double ceiling, double price) {
  for (size_t i = 0; i < wanted->count; i++) {
    event first = event_at(wanted, i), second = event_at(other, i);
    double capital = peek(scratch, state, process, &first), spared = peek(scratch, state, process, &second);
    took[i] = capital < spared || (capital < ceiling && capital <= price * spared);
    if (play(state, process, took[i] ? &first : &second) >= process->limit) return i + 1;
  }
  return wanted->count;
}

double peel_e_process_capital(const uint8_t *state, const peel_e_process *process) {
  double units = process->predictions.units ? predictions_unit_capital(state + process->predictions.offset, &process->predictions) : 0;
  return capital_of((const head *)state, process, units);
}

int peel_e_process_over(const uint8_t *state, const peel_e_process *process) {
  const head *h = (const head *)state;
  return capital_of(h, process, h->capital[PEEL_E_PROCESS_PART_UNIT]) >= process->limit;
}

static const peel_set_bets *sets_of(const peel_e_process *process, uint32_t part) {
  switch (part) {
    case PEEL_E_PROCESS_PART_REPORTS:
      return &process->reports;
    case PEEL_E_PROCESS_PART_GAPS:
      return &process->gaps;
    case PEEL_E_PROCESS_PART_SYMBOLS:
      return &process->symbol_sets;
    case PEEL_E_PROCESS_PART_LATE:
      return &process->late;
    default:
      return NULL;
  }
}

peel_e_process_evidence peel_e_process_explain(const uint8_t *state, const peel_e_process *process) {
  peel_e_process_evidence best = {.part = PEEL_E_PROCESS_PARTS};
  double punctual = 1.0 - process->late_share;
  if (process->predictions.units) predictions_explain(&best, state + process->predictions.offset, &process->predictions);
  best.capital *= punctual;
  for (uint32_t part = 0; part < PEEL_E_PROCESS_PARTS; part++) {
    const peel_set_bets *sets = sets_of(process, part);
    double share = part == PEEL_E_PROCESS_PART_LATE ? process->late_share : punctual;
    if (sets && sets->items) sets_explain(&best, state + sets->offset, sets, part, share);
  }
  if (process->heavy_hitters.categories)
    heavy_hitters_explain(&best, state + process->heavy_hitters.offset, &process->heavy_hitters, punctual);
  if (process->frequencies.units) frequencies_explain(&best, state + process->frequencies.offset, &process->frequencies, punctual);
  best.since += ((const head *)state)->first;
  return best;
}

void peel_e_process_members(uint32_t *items, const uint8_t *state, const peel_e_process *process, const peel_e_process_evidence *evidence) {
  const peel_set_bets *sets = sets_of(process, evidence->part);
  if (evidence->part == PEEL_E_PROCESS_PART_HEAVY_HITTERS)
    heavy_hitters_members(items, state + process->heavy_hitters.offset, &process->heavy_hitters, evidence->bet, evidence->size);
  else if (sets && sets->items)
    sets_members(items, state + sets->offset, sets, evidence->bet, evidence->size);
}
