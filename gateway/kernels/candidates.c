/* SPDX-License-Identifier: MIT */
/* Local hashing: bets that the symbol is one that a few candidates hash to, categories that the device's own last reports point to.
 *
 * There may be 65,535 categories, so none is counted. The last reports are kept, and now and then all categories are tried on them: the
 * best are a list of candidates, and lists compete as notebooks do. */
#include "parts.h"
#include "purse.h"

#define KEPT_REPORTS 256
#define SHORT_WINDOW 64 /* a list is drawn up every so many reports, from so many; every fourth time from all that are kept */
#define MOST_DIGITS 16

typedef struct {
  uint16_t category[PEEL_BETS_CANDIDATES];
} list;

typedef struct {
  uint32_t *clock;
  bet *bets; /* all sizes of the first list, then of the next */
  uint32_t *hash;
  list *lists;
  uint8_t *drawn; /* how many candidates a list has */
  uint8_t *symbol;
} view;

static view view_of(uint8_t *part, const peel_bets_candidates *c) {
  view v;
  v.clock = (uint32_t *)part;
  v.bets = (bet *)(v.clock + 1);
  v.hash = (uint32_t *)(v.bets + PEEL_BETS_NOTEBOOKS * c->sizes);
  v.lists = (list *)(v.hash + KEPT_REPORTS);
  v.drawn = (uint8_t *)(v.lists + PEEL_BETS_NOTEBOOKS);
  v.symbol = v.drawn + PEEL_BETS_NOTEBOOKS;
  return v;
}

size_t candidates_bytes(const peel_bets_candidates *c) {
  if (!c->categories) return 0;
  size_t bytes = 4 + PEEL_BETS_NOTEBOOKS * (c->sizes * sizeof(bet) + sizeof(list) + 1) + KEPT_REPORTS * 5;
  return (bytes + 7) / 8 * 8;
}

/* h_a(category), the inner product of their digits (SPEC section 6.3): the last digit of a hash goes with the first of a category. */
static uint32_t hashed(const peel_bets_candidates *c, uint32_t hash, uint32_t category) {
  uint32_t sum = 0;
  uint8_t digit[MOST_DIGITS];
  for (uint32_t i = 0; i < c->digits; i++, category /= c->symbols) digit[i] = (uint8_t)(category % c->symbols);
  for (uint32_t i = c->digits; i-- > 0; hash /= c->symbols) sum += digit[i] * (hash % c->symbols);
  return sum % c->symbols;
}

/* Returns what the bets on a list then hold. */
static double play_list(const view *v, const peel_bets_candidates *c, uint32_t which, double stake, uint32_t hash, uint32_t symbol,
                        uint32_t now) {
  uint8_t said[UINT8_MAX + 1] = {0};
  uint32_t distinct = 0, taken = 0;
  double held = 0;
  for (uint32_t s = 0; s < c->sizes; s++) {
    for (; taken < c->size[s] && taken < v->drawn[which]; taken++) {
      uint8_t *place = said + hashed(c, hash, v->lists[which].category[taken]);
      distinct += !*place;
      *place = 1;
    }
    int outcome = distinct == 0 ? NO_BET : said[symbol] ? RIGHT : WRONG;
    double bound = distinct == 0 ? 1.0 : (c->most + (double)(distinct - 1) * c->least) * HAIR;
    held += bet_play(v->bets + which * c->sizes + s, stake / c->sizes, outcome, bound, now);
  }
  return held;
}

/* The last reports, digit by digit: what all categories are tried on. */
typedef struct {
  uint32_t count;
  uint8_t digit[MOST_DIGITS][KEPT_REPORTS];
  uint8_t symbol[KEPT_REPORTS];
  uint8_t now[KEPT_REPORTS]; /* what the category at hand hashes to */
} trial;

static void try_reports(trial *t, const view *v, const peel_bets_candidates *c, uint32_t count) {
  t->count = count;
  memset(t->now, 0, sizeof t->now);
  for (uint32_t r = 0; r < count; r++) {
    uint32_t at = (*v->clock - 1 - r) % KEPT_REPORTS, hash = v->hash[at];
    t->symbol[r] = v->symbol[at];
    for (uint32_t i = c->digits; i-- > 0; hash /= c->symbols) t->digit[i][r] = (uint8_t)(hash % c->symbols);
  }
}

/* Add a digit of the hashes, modulo symbols: the category's digit becomes one more, or 0 after symbols - 1. */
static void turn_digit(trial *t, uint32_t i, uint32_t symbols) {
  for (uint32_t r = 0; r < t->count; r++) {
    uint8_t sum = (uint8_t)(t->now[r] + t->digit[i][r]), less = (uint8_t)(sum - symbols);
    t->now[r] = less < sum ? less : sum; /* symbols is at most 127: what is negative wraps to more than any sum */
  }
}

static uint32_t matches(const trial *t) {
  uint32_t count = 0;
  for (uint32_t r = 0; r < t->count; r++) count += t->now[r] == t->symbol[r];
  return count;
}

/* Draw up a list: the categories that most of the last count reports support, the lower one first among equals. */
static void draw_up(view *v, const peel_bets_candidates *c, uint32_t which, uint32_t count) {
  trial t;
  uint32_t best[PEEL_BETS_CANDIDATES] = {0};
  uint32_t drawn = 0, digits[MOST_DIGITS] = {0};
  try_reports(&t, v, c, count);
  for (uint32_t category = 0; category < c->categories; category++) {
    uint32_t support = matches(&t);
    if (drawn < PEEL_BETS_CANDIDATES || support > best[drawn - 1]) {
      uint32_t at = drawn < PEEL_BETS_CANDIDATES ? drawn++ : drawn - 1;
      for (; at > 0 && best[at - 1] < support; at--)
        best[at] = best[at - 1], v->lists[which].category[at] = v->lists[which].category[at - 1];
      best[at] = support, v->lists[which].category[at] = (uint16_t)category;
    }
    uint32_t i = 0;
    do turn_digit(&t, i, c->symbols), digits[i] = (digits[i] + 1) % c->symbols;
    while (digits[i] == 0 && ++i < c->digits);
  }
  v->drawn[which] = (uint8_t)drawn;
}

double candidates_play(uint8_t *part, const peel_bets_candidates *c, uint32_t hash, uint32_t symbol, uint32_t now) {
  view v = view_of(part, c);
  double share = put_in(++*v.clock) * c->capital;
  double held[PEEL_BETS_NOTEBOOKS], worth = 0;
  for (uint32_t which = 0; which < PEEL_BETS_NOTEBOOKS; which++) worth += held[which] = play_list(&v, c, which, share, hash, symbol, now);
  v.hash[(*v.clock - 1) % KEPT_REPORTS] = hash;
  v.symbol[(*v.clock - 1) % KEPT_REPORTS] = (uint8_t)symbol;
  if (*v.clock % SHORT_WINDOW == 0)
    draw_up(&v, c, poorest(held, PEEL_BETS_NOTEBOOKS), *v.clock % KEPT_REPORTS ? SHORT_WINDOW : KEPT_REPORTS);
  return worth;
}

void candidates_explain(peel_bets_evidence *best, const uint8_t *part, const peel_bets_candidates *c, double share) {
  view v = view_of((uint8_t *)part, c);
  for (uint32_t i = 0; i < PEEL_BETS_NOTEBOOKS * c->sizes; i++) {
    double wealth = purse_sum(v.bets[i].purse, PEEL_BETS_FRACTIONS) * share;
    uint32_t size = c->size[i % c->sizes], which = i / c->sizes;
    if (!(wealth > best->wealth)) continue;
    *best = (peel_bets_evidence){.part = PEEL_BETS_PART_CANDIDATES, .bet = which, .size = size, .wealth = wealth};
    if (best->size > v.drawn[which]) best->size = v.drawn[which];
    best->bound = c->most + (double)(best->size ? best->size - 1 : 0) * c->least;
    best->events = v.bets[i].events, best->trials = v.bets[i].trials, best->since = v.bets[i].since;
  }
}

void candidates_members(uint32_t *categories, const uint8_t *part, const peel_bets_candidates *c, uint32_t which, uint32_t size) {
  view v = view_of((uint8_t *)part, c);
  for (uint32_t i = 0; i < size; i++) categories[i] = v.lists[which].category[i];
}
