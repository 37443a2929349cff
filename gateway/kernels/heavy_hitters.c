/* SPDX-License-Identifier: MIT */
/* Local hashing: bets that the symbol is one that a few heavy hitters hash to, categories that the device's own last reports support most;
 * and that it is not what avoided categories hash to, those that they support least.
 *
 * There may be 65,535 categories, so none is counted. The last reports are kept, and now and then all categories are tried on them: the
 * best are a list of heavy hitters, the worst one of avoided categories, and lists compete as restart windows do. */
#include "bet_kinds.h"
#include "capital.h"

#define KEPT_REPORTS 256 /* a list is drawn up from the reports since the last one; every fourth time from all that are kept */
#define MOST_DIGITS 16

typedef struct {
  uint16_t category[PEEL_E_PROCESS_HEAVY_HITTERS];
} list;

typedef struct {
  uint16_t category[PEEL_E_PROCESS_AVOIDED];
} avoided_list;

typedef struct {
  uint32_t *clock;
  bet *bets; /* sizes, then votes, of the first list, then of the next */
  uint32_t *hash;
  list *lists;
  bet *avoided_bets; /* of the first list of avoided categories, then of the next */
  avoided_list *avoided;
  uint8_t *drawn;         /* how many heavy hitters a list has */
  uint8_t *avoided_drawn; /* the same of avoided categories */
  uint8_t *symbol;
} view;

static uint32_t bets_per_list(const peel_heavy_hitter_bets *c) { return c->sizes + c->votes; }

static view view_of(uint8_t *part, const peel_heavy_hitter_bets *c) {
  view v;
  v.clock = (uint32_t *)part;
  v.bets = (bet *)(v.clock + 1);
  v.hash = (uint32_t *)(v.bets + PEEL_E_PROCESS_WINDOWS * bets_per_list(c));
  v.lists = (list *)(v.hash + KEPT_REPORTS);
  v.avoided_bets = (bet *)(v.lists + PEEL_E_PROCESS_WINDOWS);
  v.avoided = (avoided_list *)(v.avoided_bets + PEEL_E_PROCESS_WINDOWS * c->vetoes);
  v.drawn = (uint8_t *)(v.avoided + PEEL_E_PROCESS_WINDOWS);
  v.avoided_drawn = v.drawn + PEEL_E_PROCESS_WINDOWS;
  v.symbol = v.avoided_drawn + PEEL_E_PROCESS_WINDOWS;
  return v;
}

size_t heavy_hitters_bytes(const peel_heavy_hitter_bets *c) {
  if (!c->categories) return 0;
  size_t per_list = (bets_per_list(c) + c->vetoes) * sizeof(bet) + sizeof(list) + sizeof(avoided_list) + 2;
  size_t bytes = 4 + PEEL_E_PROCESS_WINDOWS * per_list + KEPT_REPORTS * 5;
  return (bytes + 7) / 8 * 8;
}

/* h_a(category), the inner product of their digits (SPEC section 6.3): the last digit of a hash goes with the first of a category. */
static uint32_t hashed(const peel_heavy_hitter_bets *c, uint32_t hash, uint32_t category) {
  uint32_t sum = 0;
  uint8_t digit[MOST_DIGITS];
  for (uint32_t i = 0; i < c->digits; i++, category /= c->symbols) digit[i] = (uint8_t)(category % c->symbols);
  for (uint32_t i = c->digits; i-- > 0; hash /= c->symbols) sum += digit[i] * (hash % c->symbols);
  return sum % c->symbols;
}

/* How many different symbols the first few heavy hitters hash to. */
static uint32_t distinct(const uint8_t *symbols, uint32_t count) {
  uint8_t seen[UINT8_MAX + 1] = {0};
  uint32_t sum = 0;
  for (uint32_t i = 0; i < count; i++) sum += !seen[symbols[i]]++;
  return sum;
}

/* The symbol that most of the first few heavy hitters hash to, -1 if there is no such one. */
static int elected(const uint8_t *symbols, uint32_t count) {
  uint8_t votes[UINT8_MAX + 1] = {0};
  int first = -1;
  uint32_t most = 0;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t now = ++votes[symbols[i]];
    if (now > most)
      most = now, first = symbols[i];
    else if (now == most && symbols[i] != first)
      first = -1;
  }
  return first;
}

/* How many categories a list has: never more than there is room for, whatever a damaged state says. */
static uint32_t drawn_on(const view *v, uint32_t which) {
  return v->drawn[which] < PEEL_E_PROCESS_HEAVY_HITTERS ? v->drawn[which] : PEEL_E_PROCESS_HEAVY_HITTERS;
}

static uint32_t avoided_on(const view *v, uint32_t which) {
  return v->avoided_drawn[which] < PEEL_E_PROCESS_AVOIDED ? v->avoided_drawn[which] : PEEL_E_PROCESS_AVOIDED;
}

/* Returns what the bets on a list then hold. */
static double play_list(const view *v, const peel_heavy_hitter_bets *c, uint32_t which, double stake, uint32_t hash, uint32_t symbol,
                        uint32_t now) {
  uint8_t symbols[PEEL_E_PROCESS_HEAVY_HITTERS];
  uint32_t drawn = drawn_on(v, which);
  bet *bets = v->bets + which * bets_per_list(c);
  double each = stake / bets_per_list(c), held = 0;
  for (uint32_t i = 0; i < drawn; i++) symbols[i] = (uint8_t)hashed(c, hash, v->lists[which].category[i]);
  for (uint32_t s = 0; s < c->sizes; s++) {
    uint32_t count = c->size[s] < drawn ? c->size[s] : drawn, kinds = distinct(symbols, count);
    int outcome = kinds == 0 ? NO_BET : memchr(symbols, (int)symbol, count) ? RIGHT : WRONG;
    held += bet_play(bets + s, each, outcome, kinds == 0 ? 1.0 : (c->most + (double)(kinds - 1) * c->least) * HAIR, now);
  }
  for (uint32_t s = 0; s < c->votes; s++) {
    int winner = elected(symbols, c->vote[s] < drawn ? c->vote[s] : drawn);
    int outcome = winner < 0 ? NO_BET : winner == (int)symbol ? RIGHT : WRONG;
    held += bet_play(bets + c->sizes + s, each, outcome, c->most, now);
  }
  return held;
}

/* The largest probability that a report does not say one given symbol. */
static double bound_of_veto(const peel_heavy_hitter_bets *c) { return (1.0 - c->least) * HAIR; }

/* Returns what the bets on a list of avoided categories then hold. */
static double play_avoided(const view *v, const peel_heavy_hitter_bets *c, uint32_t which, double stake, uint32_t hash, uint32_t symbol,
                           uint32_t now) {
  uint8_t symbols[PEEL_E_PROCESS_AVOIDED];
  uint32_t drawn = avoided_on(v, which);
  double held = 0;
  for (uint32_t i = 0; i < drawn; i++) symbols[i] = (uint8_t)hashed(c, hash, v->avoided[which].category[i]);
  for (uint32_t s = 0; s < c->vetoes; s++) {
    int loser = elected(symbols, c->veto[s] < drawn ? c->veto[s] : drawn);
    int outcome = loser < 0 ? NO_BET : loser != (int)symbol ? RIGHT : WRONG;
    held += bet_play(v->avoided_bets + which * c->vetoes + s, stake / c->vetoes, outcome, bound_of_veto(c), now);
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

static void try_reports(trial *t, const view *v, const peel_heavy_hitter_bets *c, uint32_t count) {
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

/* The best of the categories that were tried so far, and how good they are: the first at 0. */
typedef struct {
  uint16_t *category;
  uint32_t score[PEEL_E_PROCESS_HEAVY_HITTERS];
  uint32_t count;
  uint32_t room;
} ranking;

/* Put a category in its place, behind its equals. */
static void rank_category(ranking *r, uint32_t category, uint32_t score) {
  if (r->count == r->room && score <= r->score[r->room - 1]) return;
  uint32_t at = r->count < r->room ? r->count++ : r->room - 1;
  for (; at > 0 && r->score[at - 1] < score; at--) r->score[at] = r->score[at - 1], r->category[at] = r->category[at - 1];
  r->score[at] = score, r->category[at] = (uint16_t)category;
}

/* Draw up a list of each kind: the categories that most of the last count reports support, and those that fewest do, the lower one first
 * among equals. */
static void draw_up(view *v, const peel_heavy_hitter_bets *c, uint32_t which, uint32_t which_avoided, uint32_t count) {
  trial t;
  uint32_t digits[MOST_DIGITS] = {0};
  ranking most = {.category = v->lists[which].category, .room = PEEL_E_PROCESS_HEAVY_HITTERS};
  ranking least = {.category = v->avoided[which_avoided].category, .room = PEEL_E_PROCESS_AVOIDED};
  try_reports(&t, v, c, count);
  for (uint32_t category = 0; category < c->categories; category++) {
    uint32_t support = matches(&t);
    rank_category(&most, category, support);
    rank_category(&least, category, KEPT_REPORTS - support);
    uint32_t i = 0;
    do turn_digit(&t, i, c->symbols), digits[i] = (digits[i] + 1) % c->symbols;
    while (digits[i] == 0 && ++i < c->digits);
  }
  v->drawn[which] = (uint8_t)most.count;
  v->avoided_drawn[which_avoided] = (uint8_t)least.count;
}

/* The list to replace, of lists with so many bets each. */
static uint32_t outdated_list(const bet *bets, uint32_t per_list) {
  standing standings[PEEL_E_PROCESS_WINDOWS] = {{0, 0}};
  for (uint32_t i = 0; i < PEEL_E_PROCESS_WINDOWS * per_list; i++) standing_add(standings + i / per_list, bets + i);
  return outdated(standings, PEEL_E_PROCESS_WINDOWS);
}

double heavy_hitters_play(uint8_t *part, const peel_heavy_hitter_bets *c, uint32_t hash, uint32_t symbol, uint32_t now) {
  view v = view_of(part, c);
  double share = put_in(v.clock), capital = 0;
  for (uint32_t which = 0; which < PEEL_E_PROCESS_WINDOWS; which++)
    capital += play_list(&v, c, which, share * c->capital, hash, symbol, now);
  for (uint32_t which = 0; which < PEEL_E_PROCESS_WINDOWS; which++)
    capital += play_avoided(&v, c, which, share * c->avoided_capital, hash, symbol, now);
  v.hash[(*v.clock - 1) % KEPT_REPORTS] = hash;
  v.symbol[(*v.clock - 1) % KEPT_REPORTS] = (uint8_t)symbol;
  if (*v.clock % WINDOW_TOSSES == 0)
    draw_up(&v, c, outdated_list(v.bets, bets_per_list(c)), outdated_list(v.avoided_bets, c->vetoes),
            *v.clock % KEPT_REPORTS ? WINDOW_TOSSES : KEPT_REPORTS);
  return capital;
}

void heavy_hitters_reverse(uint8_t *part, const peel_heavy_hitter_bets *c) {
  view v = view_of(part, c);
  reverse_each(v.clock, sizeof *v.clock, 1);
  reverse_bets(v.bets, (size_t)PEEL_E_PROCESS_WINDOWS * bets_per_list(c));
  reverse_each(v.hash, sizeof *v.hash, KEPT_REPORTS);
  reverse_each(v.lists, sizeof v.lists->category[0], (size_t)PEEL_E_PROCESS_WINDOWS * PEEL_E_PROCESS_HEAVY_HITTERS);
  reverse_bets(v.avoided_bets, (size_t)PEEL_E_PROCESS_WINDOWS * c->vetoes);
  reverse_each(v.avoided, sizeof v.avoided->category[0], (size_t)PEEL_E_PROCESS_WINDOWS * PEEL_E_PROCESS_AVOIDED);
}

static void explain_avoided(peel_e_process_evidence *best, const view *v, const peel_heavy_hitter_bets *c, double share) {
  for (uint32_t i = 0; i < PEEL_E_PROCESS_WINDOWS * c->vetoes; i++) {
    const bet *b = v->avoided_bets + i;
    double capital = capital_sum(b->capital, PEEL_E_PROCESS_FRACTIONS) * share;
    uint32_t which = i / c->vetoes, size = c->veto[i % c->vetoes], drawn = avoided_on(v, which);
    if (!(capital > best->capital)) continue;
    *best = (peel_e_process_evidence){.part = PEEL_E_PROCESS_PART_HEAVY_HITTERS,
                                      .bet = PEEL_E_PROCESS_UNSUPPORTED + which,
                                      .size = size < drawn ? size : drawn,
                                      .bound = bound_of_veto(c),
                                      .capital = capital};
    best->events = b->events, best->trials = b->trials, best->since = b->since;
  }
}

void heavy_hitters_explain(peel_e_process_evidence *best, const uint8_t *part, const peel_heavy_hitter_bets *c, double share) {
  view v = view_of((uint8_t *)part, c);
  uint32_t bets = bets_per_list(c);
  for (uint32_t i = 0; i < PEEL_E_PROCESS_WINDOWS * bets; i++) {
    double capital = capital_sum(v.bets[i].capital, PEEL_E_PROCESS_FRACTIONS) * share;
    uint32_t which = i / bets, at = i % bets;
    if (!(capital > best->capital)) continue;
    *best = (peel_e_process_evidence){
        .part = PEEL_E_PROCESS_PART_HEAVY_HITTERS, .bet = PEEL_E_PROCESS_SUPPORTED + which, .bound = c->most, .capital = capital};
    best->size = at < c->sizes ? c->size[at] : c->vote[at - c->sizes];
    if (best->size > drawn_on(&v, which)) best->size = drawn_on(&v, which);
    if (at < c->sizes && best->size) best->bound = c->most + (double)(best->size - 1) * c->least;
    best->events = v.bets[i].events, best->trials = v.bets[i].trials, best->since = v.bets[i].since;
  }
  explain_avoided(best, &v, c, share);
}

void heavy_hitters_members(uint32_t *categories, const uint8_t *part, const peel_heavy_hitter_bets *c, uint32_t which, uint32_t size) {
  view v = view_of((uint8_t *)part, c);
  const uint16_t *listed =
      which < PEEL_E_PROCESS_UNSUPPORTED ? v.lists[which].category : v.avoided[which - PEEL_E_PROCESS_UNSUPPORTED].category;
  for (uint32_t i = 0; i < size; i++) categories[i] = listed[i];
}
