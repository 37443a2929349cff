/* SPDX-License-Identifier: MIT */
/* Bets that a report says the symbol that was predicted for its unit. */
#include "parts.h"
#include "purse.h"

/* The same as a bet's, for one unit. */
typedef struct {
  uint32_t since;
  uint16_t trials;
  uint16_t events;
} unit_run;

/* Memories, a byte per unit each: the whole past, the last few reports of the unit, and the notebooks. */
enum { CELLS_PAST, CELLS_SHORT, CELLS_NOTEBOOK, CELLS = CELLS_NOTEBOOK + PEEL_BETS_NOTEBOOKS };

/* How far one symbol may be in the lead by the last few reports. If it were far less, a device that pushes an attribute could be back at a
 * tie before the bet on it has lost what it won, and let it lose the rest there at no cost to what he pushes; if more, a device that turns
 * would be found later. */
#define SHORT_LEAD 32

typedef struct {
  uint32_t *clock;
  bet *bets;
  unit_run *unit_runs;
  float *unit_purses;
  uint8_t *cells;
} view;

static view view_of(uint8_t *part, const peel_bets_faces *faces) {
  size_t alone = faces->unit_capital > 0 ? faces->units : 0;
  view v;
  v.clock = (uint32_t *)part;
  v.bets = (bet *)(part + 8);
  v.unit_runs = (unit_run *)(v.bets + PEEL_BETS_FACES);
  v.unit_purses = (float *)(v.unit_runs + alone);
  v.cells = (uint8_t *)(v.unit_purses + PEEL_BETS_UNIT_FRACTIONS * alone);
  return v;
}

size_t faces_bytes(const peel_bets_faces *faces) {
  if (!faces->units) return 0;
  size_t per_unit = CELLS + (faces->unit_capital > 0 ? sizeof(unit_run) + PEEL_BETS_UNIT_FRACTIONS * sizeof(float) : 0);
  return (8 + PEEL_BETS_FACES * sizeof(bet) + faces->units * per_unit + 7) / 8 * 8;
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

static int predicted(const view *v, const peel_bets_faces *faces, uint32_t which, uint32_t unit, int cohort) {
  switch (which) {
    case PEEL_BETS_PLUS:
      return 1;
    case PEEL_BETS_MINUS:
      return 0;
    case PEEL_BETS_AGREE:
      return cohort == 0 ? -1 : cohort > 0;
    case PEEL_BETS_DISAGREE:
      return cohort == 0 ? -1 : cohort < 0;
    case PEEL_BETS_PAST:
    case PEEL_BETS_AGAINST: {
      int symbol = leader(v->cells[CELLS_PAST * faces->units + unit], faces->symbols);
      return symbol < 0 || which == PEEL_BETS_PAST ? symbol : !symbol;
    }
    default:
      return leader(v->cells[(CELLS_NOTEBOOK + which - PEEL_BETS_RECENT) * faces->units + unit], faces->symbols);
  }
}

static int outcome_of(int face, uint32_t symbol) { return face < 0 ? NO_BET : face == (int)symbol ? RIGHT : WRONG; }

static double play_unit(unit_run *r, float *purse, double stake, int outcome, double bound, uint32_t now) {
  if (outcome != NO_BET && r->trials < UINT16_MAX) {
    if ((double)r->events < bound * (double)r->trials || !r->trials) *r = (unit_run){now, 0, 0};
    r->trials++;
    r->events = (uint16_t)(r->events + (outcome == RIGHT));
  }
  return purse_play(purse, PEEL_BETS_UNIT_FRACTIONS, stake, paid(outcome, bound));
}

static void remember(view *v, const peel_bets_faces *faces, uint32_t unit, uint32_t symbol) {
  uint32_t most = (UINT8_MAX + 1) / faces->symbols - 1;
  for (uint32_t i = 0; i < CELLS; i++) {
    uint8_t *cell = v->cells + i * faces->units + unit;
    *cell = vote(*cell, faces->symbols, symbol, i == CELLS_SHORT && most > SHORT_LEAD ? SHORT_LEAD : most);
  }
}

static void begin_notebook(view *v, const peel_bets_faces *faces) {
  standing standings[PEEL_BETS_NOTEBOOKS] = {{0, 0}};
  for (uint32_t i = 0; i < PEEL_BETS_NOTEBOOKS; i++) standing_add(standings + i, v->bets + PEEL_BETS_RECENT + i);
  uint32_t which = outdated(standings, PEEL_BETS_NOTEBOOKS);
  memset(v->cells + (CELLS_NOTEBOOK + which) * faces->units, 0, faces->units);
}

faces_worth faces_play(uint8_t *part, const peel_bets_faces *faces, uint32_t unit, uint32_t symbol, int cohort, uint32_t now) {
  view v = view_of(part, faces);
  double share = put_in(v.clock);
  faces_worth worth = {0, 0};
  for (uint32_t i = 0; i < PEEL_BETS_FACES; i++) {
    if (!(faces->capital[i] > 0)) continue;
    int outcome = outcome_of(predicted(&v, faces, i, unit, cohort), symbol);
    worth.pooled += bet_play(v.bets + i, share * faces->capital[i], outcome, faces->most, now);
  }
  if (faces->unit_capital > 0) {
    int outcome = outcome_of(leader(v.cells[CELLS_SHORT * faces->units + unit], faces->symbols), symbol);
    float *purse = v.unit_purses + PEEL_BETS_UNIT_FRACTIONS * unit;
    worth.unit = play_unit(v.unit_runs + unit, purse, share * faces->unit_capital, outcome, faces->most, now);
  }
  remember(&v, faces, unit, symbol);
  if (*v.clock % NOTEBOOK_TOSSES == 0) begin_notebook(&v, faces);
  return worth;
}

double faces_unit_worth(const uint8_t *part, const peel_bets_faces *faces) {
  view v = view_of((uint8_t *)part, faces);
  return faces->unit_capital > 0 ? purse_sum(v.unit_purses, PEEL_BETS_UNIT_FRACTIONS * faces->units) : 0;
}

void faces_explain(peel_bets_evidence *best, const uint8_t *part, const peel_bets_faces *faces) {
  view v = view_of((uint8_t *)part, faces);
  for (uint32_t i = 0; i < PEEL_BETS_FACES; i++) {
    double wealth = purse_sum(v.bets[i].purse, PEEL_BETS_FRACTIONS);
    if (!(wealth > best->wealth)) continue;
    *best = (peel_bets_evidence){.part = PEEL_BETS_PART_FACES, .bet = i, .bound = faces->most, .wealth = wealth};
    best->events = v.bets[i].events, best->trials = v.bets[i].trials, best->since = v.bets[i].since;
  }
  for (uint32_t unit = 0; faces->unit_capital > 0 && unit < faces->units; unit++) {
    double wealth = purse_sum(v.unit_purses + PEEL_BETS_UNIT_FRACTIONS * unit, PEEL_BETS_UNIT_FRACTIONS);
    if (!(wealth > best->wealth)) continue;
    *best = (peel_bets_evidence){.part = PEEL_BETS_PART_UNIT, .unit = unit, .bound = faces->most, .wealth = wealth};
    best->events = v.unit_runs[unit].events, best->trials = v.unit_runs[unit].trials, best->since = v.unit_runs[unit].since;
  }
}
