/* SPDX-License-Identifier: MIT */
/* Coverage-guided fuzzing of the bets: states of any bytes, as a damaged database may hold them, and any events within the process. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "e_process.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { EVENT_BYTES = 8, MOST_EVENTS = 16, PROCESSES = 4 };

static void require(int condition) {
  if (!condition) abort();
}

static peel_set_bets sets_of(uint32_t items, uint32_t windows) {
  return (peel_set_bets){.items = items,
                         .windows = windows,
                         .few = 2,
                         .sizes = 3,
                         .size = {1, 2, items - 1},
                         .most = 0.4,
                         .least = 0.2,
                         .past_capital = 0.2,
                         .window_capital = 0.05};
}

/* One block per form: Harmony's, kRR's and local hashing's. */
static peel_block_bets block_of(unsigned which) {
  if (which == 0) {
    peel_block_bets block = {.units = 5, .questions = 5};
    block.predictions = (peel_prediction_bets){.units = 5, .symbols = 2, .most = 0.73, .unit_capital = 0.1};
    for (size_t i = 0; i < PEEL_E_PROCESS_PREDICTIONS; i++) block.predictions.capital[i] = 0.02;
    block.frequencies = (peel_frequency_bets){.units = 5, .symbols = 2, .full = 8, .most = 0.73, .least = 0.27, .capital = {0.1}};
    block.lasting_frequencies = block.frequencies;
    block.lasting_frequencies.full = UINT8_MAX;
    return block;
  }
  if (which == 1) return (peel_block_bets){.units = 1, .questions = 1, .symbol_sets = sets_of(6, PEEL_E_PROCESS_WINDOWS)};
  peel_block_bets block = {.units = 81, .questions = 1};
  block.heavy_hitters = (peel_heavy_hitter_bets){.categories = 30,
                                                 .symbols = 3,
                                                 .digits = 4,
                                                 .sizes = 2,
                                                 .size = {1, PEEL_E_PROCESS_HEAVY_HITTERS},
                                                 .votes = 2,
                                                 .vote = {2, PEEL_E_PROCESS_HEAVY_HITTERS},
                                                 .most = 0.5,
                                                 .least = 0.25,
                                                 .capital = 0.2,
                                                 .vetoes = 2,
                                                 .veto = {1, PEEL_E_PROCESS_AVOIDED},
                                                 .avoided_capital = 0.1};
  block.frequencies = (peel_frequency_bets){.units = 81, .symbols = 3, .full = 31, .most = 0.5, .least = 0.25, .capital = {0.1, 0.1}};
  return block;
}

static const uint32_t weights[] = {1, 5, 1, 2, 900, 3, 1}; /* of the questions of all three */

/* One process per block, and one of all of them with weights. */
static peel_e_process process_of(unsigned which) {
  peel_e_process process = {.late_share = 0.125, .limit = 1e6};
  uint32_t units = 0, questions = 0;
  for (unsigned form = 0; form < PROCESSES - 1; form++) {
    if (which != form && which != PROCESSES - 1) continue;
    peel_block_bets *block = process.block + process.blocks++;
    *block = block_of(form);
    block->first_unit = units, block->first_question = questions;
    units += block->units, questions += block->questions;
  }
  if (questions > 1) process.reports = process.gaps = sets_of(questions, 2), process.late = sets_of(questions, 0);
  if (process.blocks > 1) process.reports.weight = process.gaps.weight = process.late.weight = weights;
  peel_e_process_lay_out(&process);
  return process;
}

static uint32_t units_of(unsigned which) { return which == 0 ? 5 : which == 1 ? 1 : which == 2 ? 81 : 87; }

static uint32_t symbols_of(unsigned which, uint32_t unit) {
  if (which == PROCESSES - 1) return unit < 5 ? 2 : unit == 5 ? 6 : 3;
  return which == 0 ? 2 : which == 1 ? 6 : 3;
}

typedef struct {
  uint32_t row[MOST_EVENTS], unit[MOST_EVENTS], symbol[MOST_EVENTS];
  uint64_t number[MOST_EVENTS];
  int8_t cohort[MOST_EVENTS];
  uint8_t kind[MOST_EVENTS];
} columns;

static peel_e_process_events read_events(columns *c, unsigned which, const uint8_t *data, size_t count) {
  memset(c, 0, sizeof *c);
  for (size_t i = 0; i < count; i++, data += EVENT_BYTES) {
    c->unit[i] = data[0] % units_of(which);
    c->symbol[i] = data[1] % symbols_of(which, c->unit[i]);
    c->cohort[i] = (int8_t)(data[2] % 3 - 1);
    c->kind[i] = data[3] % 3;
    memcpy(&c->number[i], data + 4, 4);
  }
  return (peel_e_process_events){c->row, c->number, c->unit, c->symbol, c->cohort, c->kind, count};
}

static void explain(const uint8_t *state, const peel_e_process *process) {
  peel_e_process_evidence found = peel_e_process_explain(state, process);
  uint32_t *members = calloc(found.size ? found.size : 1, sizeof *members);
  require(members != NULL);
  peel_e_process_members(members, state, process, &found);
  free(members);
}

/* The first byte chooses the process, the second how many events follow; what is left goes over a state that is otherwise 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2 || size < 2 + (size_t)EVENT_BYTES * (data[1] % MOST_EVENTS)) return 0;
  unsigned which = data[0] % PROCESSES;
  size_t count = data[1] % MOST_EVENTS, at = 2 + EVENT_BYTES * count;
  peel_e_process process = process_of(which);
  columns c;
  peel_e_process_events events = read_events(&c, which, data + 2, count);
  uint8_t *state = calloc(1, process.bytes), *scratch = calloc(1, process.bytes);
  double capital[MOST_EVENTS];
  int64_t crossed = -1;
  const uint64_t place = 0;
  require(state != NULL && scratch != NULL);
  memcpy(state, data + at, size - at < process.bytes ? size - at : process.bytes);
  peel_e_process_peek(capital, scratch, state, &process, &events);
  peel_e_process_capital(state, &process);
  peel_e_process_over(state, &process);
  explain(state, &process);
  peel_e_process_update(&crossed, state, &place, &process, &events);
  explain(state, &process);
  memcpy(scratch, state, process.bytes);
  peel_e_process_reverse_bytes(scratch, &process);
  peel_e_process_reverse_bytes(scratch, &process);
  require(memcmp(scratch, state, process.bytes) == 0);
  free(state);
  free(scratch);
  return 0;
}
