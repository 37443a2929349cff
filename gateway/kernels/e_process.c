/* SPDX-License-Identifier: MIT */
#include "e_process.h"

#include <string.h>

#include "bet_kinds.h"

#define CACHE_LINE 64
#define FETCHED 4096 /* bytes of a state */

typedef struct {
  uint64_t first; /* number of the first event, 0 before it */
  double unit;    /* what the bet on the last report's unit alone holds */
  double reports; /* what the bets of each part hold */
  double gaps;
  double late;
} head;

/* What the bets of a block's parts hold; behind the head, block after block. */
typedef struct {
  double predictions;
  double symbols;
  double heavy_hitters;
  double frequencies;
} block_capital;

typedef struct {
  uint64_t number;
  uint32_t unit;
  uint32_t symbol;
  int cohort;
  uint8_t kind;
} event;

static block_capital *capital_of_blocks(const uint8_t *state) { return (block_capital *)(state + sizeof(head)); }

static size_t lay_out_block(peel_block_bets *block, size_t at) {
  block->predictions.offset = at;
  at += predictions_bytes(&block->predictions);
  block->symbol_sets.offset = at;
  at += sets_bytes(&block->symbol_sets);
  block->heavy_hitters.offset = at;
  at += heavy_hitters_bytes(&block->heavy_hitters);
  block->frequencies.offset = at;
  at += frequencies_bytes(&block->frequencies);
  block->lasting_frequencies.offset = at;
  return at + frequencies_bytes(&block->lasting_frequencies);
}

size_t peel_e_process_lay_out(peel_e_process *process) {
  size_t at = sizeof(head) + process->blocks * sizeof(block_capital);
  for (uint32_t b = 0; b < process->blocks; b++) at = lay_out_block(process->block + b, at);
  peel_set_bets *const parts[] = {&process->reports, &process->gaps, &process->late};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    parts[i]->offset = at;
    at += sets_bytes(parts[i]);
  }
  return process->bytes = at;
}

static event event_at(const peel_e_process_events *events, size_t i) {
  return (event){events->number[i], events->unit[i], events->symbol[i], events->cohort[i], events->kind[i]};
}

/* Two supermartingales share alpha; a device is exposed by either. */
static double capital_of(const uint8_t *state, const peel_e_process *process, double units) {
  const head *h = (const head *)state;
  const block_capital *c = capital_of_blocks(state);
  double punctual = 0;
  for (uint32_t b = 0; b < process->blocks; b++) punctual += c[b].predictions + c[b].symbols + c[b].heavy_hitters + c[b].frequencies;
  punctual = (punctual + units + h->reports + h->gaps) * (1.0 - process->late_share);
  double late = h->late * process->late_share;
  return punctual > late ? punctual : late;
}

/* The block that a unit belongs to. */
static uint32_t block_of(const peel_e_process *process, uint32_t unit) {
  uint32_t low = 0, high = process->blocks;
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    if (unit < process->block[middle].first_unit)
      high = middle;
    else
      low = middle;
  }
  return low;
}

static uint32_t question_of(const peel_block_bets *block, uint32_t unit) {
  return block->first_question + (block->questions == block->units ? unit - block->first_unit : 0);
}

static void bet_on_item(double *held, uint8_t *state, const peel_set_bets *sets, uint32_t item, uint32_t now) {
  if (sets->items) *held = sets_play(state + sets->offset, sets, item, now);
}

/* Bet on what a report says. Returns what the bet on its unit alone then holds. */
static double play_block(uint8_t *state, const peel_block_bets *block, block_capital *held, const event *e, uint32_t now) {
  uint32_t unit = e->unit - block->first_unit;
  bet_on_item(&held->symbols, state, &block->symbol_sets, e->symbol, now);
  if (block->heavy_hitters.categories)
    held->heavy_hitters = heavy_hitters_play(state + block->heavy_hitters.offset, &block->heavy_hitters, unit, e->symbol, now);
  const peel_frequency_bets *const frequencies[] = {&block->frequencies, &block->lasting_frequencies};
  double held_by[] = {0, 0};
  for (size_t i = 0; i < 2; i++)
    if (frequencies[i]->units) held_by[i] = frequencies_play(state + frequencies[i]->offset, frequencies[i], unit, e->symbol, now);
  held->frequencies = held_by[0] + held_by[1];
  if (!block->predictions.units) return 0;
  prediction_capital capital = predictions_play(state + block->predictions.offset, &block->predictions, unit, e->symbol, e->cohort, now);
  held->predictions = capital.pooled;
  return capital.unit;
}

/* Returns the capital, with of all single units only the one that the event is about: never more than there is. */
static double play(uint8_t *state, const peel_e_process *process, const event *e) {
  head *h = (head *)state;
  uint32_t b = block_of(process, e->unit), question = question_of(process->block + b, e->unit);
  if (!h->first) h->first = e->number;
  uint64_t later = e->number > h->first ? e->number - h->first : 0;
  uint32_t now = later < UINT32_MAX ? (uint32_t)later : UINT32_MAX;
  h->unit = 0;
  if (e->kind == PEEL_E_PROCESS_GAP) bet_on_item(&h->gaps, state, &process->gaps, question, now);
  if (e->kind == PEEL_E_PROCESS_FRESH || e->kind == PEEL_E_PROCESS_ABSENT)
    bet_on_item(&h->reports, state, &process->reports, question, now);
  if (e->kind == PEEL_E_PROCESS_TARDY || e->kind == PEEL_E_PROCESS_ABSENT_TARDY)
    bet_on_item(&h->late, state, &process->late, question, now);
  if (e->kind == PEEL_E_PROCESS_FRESH || e->kind == PEEL_E_PROCESS_TARDY)
    h->unit = play_block(state, process->block + b, capital_of_blocks(state) + b, e, now);
  return capital_of(state, process, h->unit);
}

/* The states of many devices do not fit into the caches of a processor. With 20,000 devices this halves the time of an update. */
static void fetch(const uint8_t *state, size_t bytes) {
#ifdef __GNUC__
  for (size_t at = 0; at < bytes && at < FETCHED; at += CACHE_LINE) __builtin_prefetch(state + at, 1);
#else
  (void)state, (void)bytes;
#endif
}

void peel_e_process_update(int64_t *crossed, uint8_t *states, const uint64_t *places, const peel_e_process *process,
                           const peel_e_process_events *events) {
  for (size_t i = 0; i < events->count; i++) {
    uint32_t row = events->row[i];
    if (i + 1 < events->count) fetch(states + places[events->row[i + 1]] * process->bytes, process->bytes);
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
                           const peel_e_process_events *wanted, const peel_e_process_events *other, const double *price, double ceiling,
                           double floor) {
  int resting = 0;
  for (size_t i = 0; i < wanted->count; i++) {
    event first = event_at(wanted, i), second = event_at(other, i);
    double capital = peek(scratch, state, process, &first), spared = peek(scratch, state, process, &second);
    if (capital != spared) resting = capital > floor && (resting || (capital >= ceiling && spared < capital));
    took[i] = capital < spared || (!resting && capital < ceiling && capital <= price[i] * spared);
    if (play(state, process, took[i] ? &first : &second) >= process->limit) return i + 1;
  }
  return wanted->count;
}

void peel_e_process_reverse_bytes(uint8_t *state, const peel_e_process *process) {
  reverse_each(state, sizeof(uint64_t), (sizeof(head) + process->blocks * sizeof(block_capital)) / sizeof(uint64_t));
  for (uint32_t b = 0; b < process->blocks; b++) {
    const peel_block_bets *block = process->block + b;
    if (block->predictions.units) predictions_reverse(state + block->predictions.offset, &block->predictions);
    if (block->symbol_sets.items) sets_reverse(state + block->symbol_sets.offset, &block->symbol_sets);
    if (block->heavy_hitters.categories) heavy_hitters_reverse(state + block->heavy_hitters.offset, &block->heavy_hitters);
    if (block->frequencies.units) frequencies_reverse(state + block->frequencies.offset);
    if (block->lasting_frequencies.units) frequencies_reverse(state + block->lasting_frequencies.offset);
  }
  const peel_set_bets *const parts[] = {&process->reports, &process->gaps, &process->late};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (parts[i]->items) sets_reverse(state + parts[i]->offset, parts[i]);
}

double peel_e_process_capital(const uint8_t *state, const peel_e_process *process) {
  double units = 0;
  for (uint32_t b = 0; b < process->blocks; b++) {
    const peel_prediction_bets *predictions = &process->block[b].predictions;
    if (predictions->units) units += predictions_unit_capital(state + predictions->offset, predictions);
  }
  return capital_of(state, process, units);
}

int peel_e_process_over(const uint8_t *state, const peel_e_process *process) {
  return capital_of(state, process, ((const head *)state)->unit) >= process->limit;
}

static const peel_set_bets *sets_of(const peel_e_process *process, uint32_t part, uint32_t block) {
  switch (part) {
    case PEEL_E_PROCESS_PART_REPORTS:
      return &process->reports;
    case PEEL_E_PROCESS_PART_GAPS:
      return &process->gaps;
    case PEEL_E_PROCESS_PART_SYMBOLS:
      return &process->block[block].symbol_sets;
    case PEEL_E_PROCESS_PART_LATE:
      return &process->late;
    default:
      return NULL;
  }
}

static void explain_sets(peel_e_process_evidence *best, const uint8_t *state, const peel_e_process *process, uint32_t part, uint32_t block,
                         double share) {
  const peel_set_bets *sets = sets_of(process, part, block);
  if (sets->items) sets_explain(best, state + sets->offset, sets, part, share);
}

/* Replace best by a bet of this block, if one holds more. */
static void explain_block(peel_e_process_evidence *best, const uint8_t *state, const peel_e_process *process, uint32_t b, double share) {
  const peel_block_bets *block = process->block + b;
  peel_e_process_evidence found = {.part = PEEL_E_PROCESS_PARTS, .capital = best->capital};
  if (block->predictions.units) predictions_explain(&found, state + block->predictions.offset, &block->predictions, share);
  explain_sets(&found, state, process, PEEL_E_PROCESS_PART_SYMBOLS, b, share);
  if (block->heavy_hitters.categories) heavy_hitters_explain(&found, state + block->heavy_hitters.offset, &block->heavy_hitters, share);
  if (block->frequencies.units) frequencies_explain(&found, state + block->frequencies.offset, &block->frequencies, share);
  if (block->lasting_frequencies.units)
    frequencies_explain(&found, state + block->lasting_frequencies.offset, &block->lasting_frequencies, share);
  if (found.part == PEEL_E_PROCESS_PARTS) return;
  found.block = b;
  found.unit += block->first_unit;
  *best = found;
}

peel_e_process_evidence peel_e_process_explain(const uint8_t *state, const peel_e_process *process) {
  peel_e_process_evidence best = {.part = PEEL_E_PROCESS_PARTS};
  double punctual = 1.0 - process->late_share;
  for (uint32_t b = 0; b < process->blocks; b++) explain_block(&best, state, process, b, punctual);
  explain_sets(&best, state, process, PEEL_E_PROCESS_PART_REPORTS, 0, punctual);
  explain_sets(&best, state, process, PEEL_E_PROCESS_PART_GAPS, 0, punctual);
  explain_sets(&best, state, process, PEEL_E_PROCESS_PART_LATE, 0, process->late_share);
  best.since += ((const head *)state)->first;
  return best;
}

void peel_e_process_members(uint32_t *items, const uint8_t *state, const peel_e_process *process, const peel_e_process_evidence *evidence) {
  const peel_heavy_hitter_bets *heavy_hitters = &process->block[evidence->block].heavy_hitters;
  const peel_set_bets *sets = sets_of(process, evidence->part, evidence->block);
  if (evidence->part == PEEL_E_PROCESS_PART_HEAVY_HITTERS)
    heavy_hitters_members(items, state + heavy_hitters->offset, heavy_hitters, evidence->bet, evidence->size);
  else if (sets && sets->items)
    sets_members(items, state + sets->offset, sets, evidence->bet, evidence->size);
}
