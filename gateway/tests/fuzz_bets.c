/* SPDX-License-Identifier: MIT */
/* Coverage-guided fuzzing of the bets: states of any bytes, as a damaged database may hold them, and any events within the game. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { EVENT_BYTES = 8, MOST_EVENTS = 16, GAMES = 3 };

static void require(int condition) {
  if (!condition) abort();
}

static peel_bets_sets sets_of(uint32_t items, uint32_t notebooks) {
  return (peel_bets_sets){.items = items,
                          .notebooks = notebooks,
                          .few = 2,
                          .sizes = 3,
                          .size = {1, 2, items - 1},
                          .most = 0.4,
                          .least = 0.2,
                          .past = 0.2,
                          .notebook = 0.05};
}

/* One game per mechanism: Harmony's, kRR's and local hashing's. */
static peel_bets_game game_of(unsigned which) {
  peel_bets_game game = {.late_share = 0.125, .limit = 1e6};
  if (which == 0) {
    game.faces = (peel_bets_faces){.units = 5, .symbols = 2, .most = 0.73, .unit_capital = 0.1};
    for (size_t i = 0; i < PEEL_BETS_FACES; i++) game.faces.capital[i] = 0.02;
    game.reports = game.gaps = sets_of(5, 2);
    game.late = sets_of(5, 0);
  } else if (which == 1) {
    game.symbols = sets_of(6, PEEL_BETS_NOTEBOOKS);
  } else {
    game.candidates = (peel_bets_candidates){.categories = 30,
                                             .symbols = 3,
                                             .digits = 4,
                                             .sizes = 2,
                                             .size = {1, PEEL_BETS_CANDIDATES},
                                             .votes = 2,
                                             .vote = {2, PEEL_BETS_CANDIDATES},
                                             .most = 0.5,
                                             .least = 0.25,
                                             .capital = 0.2};
    game.shares = (peel_bets_shares){.units = 81, .symbols = 3, .most = 0.5, .least = 0.25, .capital = 0.1};
  }
  peel_bets_lay_out(&game);
  return game;
}

static uint32_t units_of(unsigned which) { return which == 0 ? 5 : which == 1 ? 1 : 81; }
static uint32_t symbols_of(unsigned which) { return which == 0 ? 2 : which == 1 ? 6 : 3; }

typedef struct {
  uint32_t row[MOST_EVENTS], unit[MOST_EVENTS], symbol[MOST_EVENTS];
  uint64_t number[MOST_EVENTS];
  int8_t cohort[MOST_EVENTS];
  uint8_t kind[MOST_EVENTS];
} columns;

static peel_bets_events read_events(columns *c, unsigned which, const uint8_t *data, size_t count) {
  memset(c, 0, sizeof *c);
  for (size_t i = 0; i < count; i++, data += EVENT_BYTES) {
    c->unit[i] = data[0] % units_of(which);
    c->symbol[i] = data[1] % symbols_of(which);
    c->cohort[i] = (int8_t)(data[2] % 3 - 1);
    c->kind[i] = data[3] % 3;
    memcpy(&c->number[i], data + 4, 4);
  }
  return (peel_bets_events){c->row, c->number, c->unit, c->symbol, c->cohort, c->kind, count};
}

static void explain(const uint8_t *state, const peel_bets_game *game) {
  peel_bets_evidence found = peel_bets_explain(state, game);
  uint32_t *members = calloc(found.size ? found.size : 1, sizeof *members);
  require(members != NULL);
  peel_bets_members(members, state, game, &found);
  free(members);
}

/* The first byte chooses the game, the second how many events follow; what is left goes over a state that is otherwise 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2 || size < 2 + (size_t)EVENT_BYTES * (data[1] % MOST_EVENTS)) return 0;
  unsigned which = data[0] % GAMES;
  size_t count = data[1] % MOST_EVENTS, at = 2 + EVENT_BYTES * count;
  peel_bets_game game = game_of(which);
  columns c;
  peel_bets_events events = read_events(&c, which, data + 2, count);
  uint8_t *state = calloc(1, game.bytes), *scratch = calloc(1, game.bytes);
  double wealth[MOST_EVENTS];
  int64_t crossed = -1;
  const uint64_t place = 0;
  require(state != NULL && scratch != NULL);
  memcpy(state, data + at, size - at < game.bytes ? size - at : game.bytes);
  peel_bets_peek(wealth, scratch, state, &game, &events);
  peel_bets_wealth(state, &game);
  peel_bets_over(state, &game);
  explain(state, &game);
  peel_bets_update(&crossed, state, &place, &game, &events);
  explain(state, &game);
  free(state);
  free(scratch);
  return 0;
}
