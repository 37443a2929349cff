/* SPDX-License-Identifier: MIT */
/* Bets that an item is in a predicted set: the a items that came most often, for several a; fewer, if fewer have come. */
#include "bet_kinds.h"
#include "capital.h"

typedef struct {
  uint32_t *clock;
  bet *bets;       /* all sizes of the whole past, then the few of each window */
  uint16_t *count; /* the whole past */
  uint8_t *window; /* one after the other */
} view;

static view view_of(uint8_t *part, const peel_set_bets *sets) {
  view v;
  v.clock = (uint32_t *)part;
  v.bets = (bet *)(v.clock + 1);
  v.count = (uint16_t *)(v.bets + sets->sizes + sets->windows * sets->few);
  v.window = (uint8_t *)(v.count + sets->items);
  return v;
}

size_t sets_bytes(const peel_set_bets *sets) {
  if (!sets->items) return 0;
  size_t bets = (size_t)sets->sizes + (size_t)sets->windows * sets->few;
  size_t bytes = 4 + bets * sizeof(bet) + sets->items * (2 + (size_t)sets->windows);
  return (bytes + 7) / 8 * 8;
}

static bet *bets_of(const view *v, const peel_set_bets *sets, uint32_t memory) {
  return memory == 0 ? v->bets : v->bets + sets->sizes + (memory - 1) * sets->few;
}

static uint32_t sizes_of(const peel_set_bets *sets, uint32_t memory) { return memory == 0 ? sets->sizes : sets->few; }

/* How many items stand before this one, the most frequent first and the lower index first among equals; and how many have come at all. */
typedef struct {
  uint32_t before;
  uint32_t shown;
} rank;

static rank rank_past(const uint16_t *count, uint32_t items, uint32_t item) {
  uint32_t before = 0, shown = 0;
  for (uint32_t i = 0; i < items; i++) before += count[i] > count[item], shown += count[i] > 0;
  for (uint32_t i = 0; i < item; i++) before += count[i] == count[item];
  return (rank){before, shown};
}

static rank rank_window(const uint8_t *count, uint32_t items, uint32_t item) {
  uint32_t before = 0, shown = 0;
  for (uint32_t i = 0; i < items; i++) before += count[i] > count[item], shown += count[i] > 0;
  for (uint32_t i = 0; i < item; i++) before += count[i] == count[item];
  return (rank){before, shown};
}

static rank rank_of(const view *v, const peel_set_bets *sets, uint32_t memory, uint32_t item) {
  if (memory == 0) return rank_past(v->count, sets->items, item);
  return rank_window(v->window + (memory - 1) * sets->items, sets->items, item);
}

/* How many items the predicted set has: none before the first has come. */
static uint32_t set_size(const peel_set_bets *sets, uint32_t s, uint32_t shown) {
  uint32_t size = sets->size[s];
  return shown < size && (s < sets->few || shown == 0) ? shown : size;
}

/* Sort items by one byte of their counts, the largest first. Equals stay in order. */
static void sort_by_byte(uint16_t *to, const uint16_t *from, const uint16_t *count, uint32_t items, uint32_t shift) {
  uint32_t at[UINT8_MAX + 2], top = 0; /* place of the next item with each value of the byte, from the largest down */
  for (uint32_t i = 0; i < items; i++) top |= count[i] >> shift & UINT8_MAX;
  for (uint32_t i = 0; i <= top + 1; i++) at[i] = 0;
  for (uint32_t i = 0; i < items; i++) at[top + 1 - (count[i] >> shift & UINT8_MAX)]++;
  for (uint32_t i = 1; i <= top; i++) at[i] += at[i - 1];
  for (uint32_t i = 0; i < items; i++) to[at[top - (count[from[i]] >> shift & UINT8_MAX)]++] = from[i];
}

/* How much each predicted set weighs: items in the order of rank_of. */
static void weigh(uint32_t *weights, const view *v, const peel_set_bets *sets, uint32_t memory, uint32_t shown) {
  uint16_t count[PEEL_E_PROCESS_QUESTIONS], first[PEEL_E_PROCESS_QUESTIONS], second[PEEL_E_PROCESS_QUESTIONS];
  const uint16_t *order = second;
  for (uint32_t i = 0; i < sets->items; i++) {
    first[i] = (uint16_t)i;
    count[i] = memory == 0 ? v->count[i] : v->window[(memory - 1) * sets->items + i];
  }
  sort_by_byte(second, first, count, sets->items, 0);
  if (memory == 0) sort_by_byte(first, second, count, sets->items, 8), order = first;
  for (uint32_t s = 0, a = 0, sum = 0; s < sizes_of(sets, memory); s++) {
    for (; a < set_size(sets, s, shown); a++) sum += sets->weight[order[a]];
    weights[s] = sum;
  }
}

/* The largest probability that the next item is one of a predicted set. Its weight is unused where all items are alike. */
static double bound_of(const peel_set_bets *sets, uint32_t size, uint32_t weight) {
  if (!sets->weight) return (sets->most + (double)(size - 1) * sets->least) * HAIR;
  return ((double)weight * sets->most + (double)size * sets->least) * HAIR;
}

/* Returns what the bets of this memory then hold. */
static double play_memory(view *v, const peel_set_bets *sets, uint32_t memory, double stake, uint32_t item, uint32_t now) {
  bet *bets = bets_of(v, sets, memory);
  uint32_t sizes = sizes_of(sets, memory);
  rank r = rank_of(v, sets, memory, item);
  uint32_t weights[PEEL_E_PROCESS_SIZES];
  double held = 0;
  if (sets->weight) weigh(weights, v, sets, memory, r.shown);
  for (uint32_t s = 0; s < sizes; s++) {
    uint32_t size = set_size(sets, s, r.shown);
    int outcome = size == 0 ? NO_BET : r.before < size ? RIGHT : WRONG;
    held += bet_play(bets + s, stake / sizes, outcome, bound_of(sets, size, sets->weight ? weights[s] : 0), now);
  }
  return held;
}

/* Count the item; a count that is full halves all of its memory. */
static void remember(view *v, const peel_set_bets *sets, uint32_t item) {
  if (v->count[item] == UINT16_MAX)
    for (uint32_t i = 0; i < sets->items; i++) v->count[i] /= 2;
  v->count[item]++;
  for (uint32_t n = 0; n < sets->windows; n++) {
    uint8_t *count = v->window + n * sets->items;
    if (count[item] == UINT8_MAX)
      for (uint32_t i = 0; i < sets->items; i++) count[i] /= 2;
    count[item]++;
  }
}

static void restart_window(view *v, const peel_set_bets *sets) {
  standing standings[PEEL_E_PROCESS_WINDOWS] = {{0, 0}};
  for (uint32_t i = 0; i < sets->windows; i++)
    for (uint32_t s = 0; s < sets->few; s++) standing_add(standings + i, bets_of(v, sets, i + 1) + s);
  memset(v->window + outdated(standings, sets->windows) * sets->items, 0, sets->items);
}

double sets_play(uint8_t *part, const peel_set_bets *sets, uint32_t item, uint32_t now) {
  view v = view_of(part, sets);
  double share = put_in(v.clock);
  double capital = 0;
  for (uint32_t memory = 0; memory <= sets->windows; memory++)
    capital += play_memory(&v, sets, memory, share * (memory == 0 ? sets->past_capital : sets->window_capital), item, now);
  remember(&v, sets, item);
  if (sets->windows && *v.clock % WINDOW_TOSSES == 0) restart_window(&v, sets);
  return capital;
}

void sets_reverse(uint8_t *part, const peel_set_bets *sets) {
  view v = view_of(part, sets);
  reverse_each(v.clock, sizeof *v.clock, 1);
  reverse_bets(v.bets, (size_t)sets->sizes + (size_t)sets->windows * sets->few);
  reverse_each(v.count, sizeof *v.count, sets->items);
}

void sets_explain(peel_e_process_evidence *best, const uint8_t *part, const peel_set_bets *sets, uint32_t which, double share) {
  view v = view_of((uint8_t *)part, sets);
  for (uint32_t memory = 0; memory <= sets->windows; memory++) {
    uint32_t shown = rank_of(&v, sets, memory, 0).shown, weights[PEEL_E_PROCESS_SIZES];
    if (sets->weight) weigh(weights, &v, sets, memory, shown);
    for (uint32_t s = 0; s < sizes_of(sets, memory); s++) {
      const bet *b = bets_of(&v, sets, memory) + s;
      double capital = capital_sum(b->capital, PEEL_E_PROCESS_FRACTIONS) * share;
      if (!(capital > best->capital)) continue;
      *best = (peel_e_process_evidence){.part = which, .bet = memory, .size = set_size(sets, s, shown), .capital = capital};
      best->bound = bound_of(sets, best->size, sets->weight ? weights[s] : 0);
      best->events = b->events, best->trials = b->trials, best->since = b->since;
    }
  }
}

void sets_members(uint32_t *items, const uint8_t *part, const peel_set_bets *sets, uint32_t memory, uint32_t size) {
  view v = view_of((uint8_t *)part, sets);
  for (uint32_t item = 0; item < sets->items; item++) {
    uint32_t before = rank_of(&v, sets, memory, item).before;
    if (before < size) items[before] = item;
  }
}
