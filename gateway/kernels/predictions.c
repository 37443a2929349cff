/* SPDX-License-Identifier: MIT */
/* Bets that a report says the symbol that was predicted for its unit. */
#include "bet_kinds.h"
#include "capital.h"

/* The bets on one unit: one on each sign, at every report. A bet on the sign in the lead would have no side at a tie: a device could cross
 * the tie back and forth, and the bet would lose there and never win. */
#define DIRECTIONS 2

/* The same as a bet's, for one unit. */
typedef struct {
  uint32_t since;
  uint16_t trials;
  uint16_t events;
} unit_run;

/* Memories, a byte per unit each: the whole past and the windows. */
enum { CELLS_PAST, CELLS_WINDOW, CELLS = CELLS_WINDOW + PEEL_E_PROCESS_WINDOWS };

typedef struct {
  uint32_t *clock;
  bet *bets;
  unit_run *unit_runs;
  float *unit_capitals;
  uint8_t *cells;
} view;

static view view_of(uint8_t *part, const peel_prediction_bets *predictions) {
  size_t alone = predictions->unit_capital > 0 ? predictions->units : 0;
  view v;
  v.clock = (uint32_t *)part;
  v.bets = (bet *)(part + 8);
  v.unit_runs = (unit_run *)(v.bets + PEEL_E_PROCESS_PREDICTIONS);
  v.unit_capitals = (float *)(v.unit_runs + DIRECTIONS * alone);
  v.cells = (uint8_t *)(v.unit_capitals + DIRECTIONS * PEEL_E_PROCESS_UNIT_FRACTIONS * alone);
  return v;
}

size_t predictions_bytes(const peel_prediction_bets *predictions) {
  if (!predictions->units) return 0;
  size_t alone = sizeof(unit_run) + PEEL_E_PROCESS_UNIT_FRACTIONS * sizeof(float);
  size_t per_unit = CELLS + (predictions->unit_capital > 0 ? DIRECTIONS * alone : 0);
  return (8 + PEEL_E_PROCESS_PREDICTIONS * sizeof(bet) + predictions->units * per_unit + 7) / 8 * 8;
}

/* A cell is a majority vote in a byte (Boyer and Moore 1991): the symbol in the lead, and by how much, lead * symbols + symbol. With two
 * symbols the lead is the difference of their counts. */
static int leader(uint8_t cell, uint32_t symbols) { return cell < symbols ? -1 : (int)(cell % symbols); }

static uint8_t vote(uint8_t cell, uint32_t symbols, uint32_t symbol, uint32_t limit) {
  uint32_t lead = cell / symbols;
  if (lead == 0) return (uint8_t)(symbols + symbol);
  if (cell % symbols != symbol) return (uint8_t)(cell - symbols);
  return (uint8_t)(lead < limit ? cell + symbols : cell);
}

static int predicted(const view *v, const peel_prediction_bets *predictions, uint32_t which, uint32_t unit, int cohort) {
  switch (which) {
    case PEEL_E_PROCESS_PLUS:
      return 1;
    case PEEL_E_PROCESS_MINUS:
      return 0;
    case PEEL_E_PROCESS_AGREE:
      return cohort == 0 ? -1 : cohort > 0;
    case PEEL_E_PROCESS_DISAGREE:
      return cohort == 0 ? -1 : cohort < 0;
    case PEEL_E_PROCESS_PAST:
    case PEEL_E_PROCESS_AGAINST: {
      int symbol = leader(v->cells[CELLS_PAST * predictions->units + unit], predictions->symbols);
      return symbol < 0 || which == PEEL_E_PROCESS_PAST ? symbol : !symbol;
    }
    default:
      return leader(v->cells[(CELLS_WINDOW + which - PEEL_E_PROCESS_RECENT) * predictions->units + unit], predictions->symbols);
  }
}

static int outcome_of(int predicted, uint32_t symbol) { return predicted < 0 ? NO_BET : predicted == (int)symbol ? RIGHT : WRONG; }

static double play_unit(unit_run *r, float *capital, double stake, int outcome, double bound, uint32_t now) {
  if (outcome != NO_BET && r->trials < UINT16_MAX) {
    if ((double)r->events < bound * (double)r->trials || !r->trials) *r = (unit_run){now, 0, 0};
    r->trials++;
    r->events = (uint16_t)(r->events + (outcome == RIGHT));
  }
  return capital_play(capital, PEEL_E_PROCESS_UNIT_FRACTIONS, stake, paid(outcome, bound));
}

static void remember(view *v, const peel_prediction_bets *predictions, uint32_t unit, uint32_t symbol) {
  uint32_t most = (UINT8_MAX + 1) / predictions->symbols - 1;
  for (uint32_t i = 0; i < CELLS; i++) {
    uint8_t *cell = v->cells + i * predictions->units + unit;
    *cell = vote(*cell, predictions->symbols, symbol, most);
  }
}

static void restart_window(view *v, const peel_prediction_bets *predictions) {
  standing standings[PEEL_E_PROCESS_WINDOWS] = {{0, 0}};
  for (uint32_t i = 0; i < PEEL_E_PROCESS_WINDOWS; i++) standing_add(standings + i, v->bets + PEEL_E_PROCESS_RECENT + i);
  uint32_t which = outdated(standings, PEEL_E_PROCESS_WINDOWS);
  memset(v->cells + (CELLS_WINDOW + which) * predictions->units, 0, predictions->units);
}

prediction_capital predictions_play(uint8_t *part, const peel_prediction_bets *predictions, uint32_t unit, uint32_t symbol, int cohort,
                                    uint32_t now) {
  view v = view_of(part, predictions);
  double share = put_in(v.clock);
  prediction_capital capital = {0, 0};
  for (uint32_t i = 0; i < PEEL_E_PROCESS_PREDICTIONS; i++) {
    if (!(predictions->capital[i] > 0)) continue;
    int outcome = outcome_of(predicted(&v, predictions, i, unit, cohort), symbol);
    capital.pooled += bet_play(v.bets + i, share * predictions->capital[i], outcome, predictions->most, now);
  }
  if (predictions->unit_capital > 0) {
    double stake = share * predictions->unit_capital / DIRECTIONS;
    for (uint32_t sign = 0; sign < DIRECTIONS; sign++) {
      uint32_t i = DIRECTIONS * unit + sign;
      float *own = v.unit_capitals + PEEL_E_PROCESS_UNIT_FRACTIONS * i;
      capital.unit += play_unit(v.unit_runs + i, own, stake, symbol == sign ? RIGHT : WRONG, predictions->most, now);
    }
  }
  remember(&v, predictions, unit, symbol);
  if (*v.clock % WINDOW_TOSSES == 0) restart_window(&v, predictions);
  return capital;
}

void predictions_reverse(uint8_t *part, const peel_prediction_bets *predictions) {
  view v = view_of(part, predictions);
  size_t alone = predictions->unit_capital > 0 ? DIRECTIONS * (size_t)predictions->units : 0;
  reverse_each(v.clock, sizeof *v.clock, 1);
  reverse_bets(v.bets, PEEL_E_PROCESS_PREDICTIONS);
  for (size_t i = 0; i < alone; i++) {
    reverse_each(&v.unit_runs[i].since, sizeof v.unit_runs[i].since, 1);
    reverse_each(&v.unit_runs[i].trials, sizeof v.unit_runs[i].trials, 1);
    reverse_each(&v.unit_runs[i].events, sizeof v.unit_runs[i].events, 1);
  }
  reverse_each(v.unit_capitals, sizeof *v.unit_capitals, PEEL_E_PROCESS_UNIT_FRACTIONS * alone);
}

double predictions_unit_capital(const uint8_t *part, const peel_prediction_bets *predictions) {
  view v = view_of((uint8_t *)part, predictions);
  return predictions->unit_capital > 0 ? capital_sum(v.unit_capitals, DIRECTIONS * PEEL_E_PROCESS_UNIT_FRACTIONS * predictions->units) : 0;
}

void predictions_explain(peel_e_process_evidence *best, const uint8_t *part, const peel_prediction_bets *predictions, double share) {
  view v = view_of((uint8_t *)part, predictions);
  for (uint32_t i = 0; i < PEEL_E_PROCESS_PREDICTIONS; i++) {
    double capital = capital_sum(v.bets[i].capital, PEEL_E_PROCESS_FRACTIONS) * share;
    if (!(capital > best->capital)) continue;
    *best = (peel_e_process_evidence){.part = PEEL_E_PROCESS_PART_PREDICTIONS, .bet = i, .bound = predictions->most, .capital = capital};
    best->events = v.bets[i].events, best->trials = v.bets[i].trials, best->since = v.bets[i].since;
  }
  for (uint32_t i = 0; predictions->unit_capital > 0 && i < DIRECTIONS * predictions->units; i++) {
    double capital = capital_sum(v.unit_capitals + PEEL_E_PROCESS_UNIT_FRACTIONS * i, PEEL_E_PROCESS_UNIT_FRACTIONS) * share;
    if (!(capital > best->capital)) continue;
    *best = (peel_e_process_evidence){.part = PEEL_E_PROCESS_PART_UNIT, .bound = predictions->most, .capital = capital};
    best->unit = i / DIRECTIONS;
    best->events = v.unit_runs[i].events, best->trials = v.unit_runs[i].trials, best->since = v.unit_runs[i].since;
  }
}
