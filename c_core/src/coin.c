/* SPDX-License-Identifier: MIT */
/* Verified coins: tables of outcomes, their roots and openings (SPEC section 13).
 *
 * Seed, mask, shift, outcomes, nonces and the answer decide no branch and no address. How often a draw is rejected depends on random
 * words only. The index that is opened is public.
 */
#include <string.h>

#include "ascon.h"
#include "bytes.h"
#include "peel.h"

#define HASH_BYTES PEEL_COIN_HASH_BYTES
#define NONCE_BYTES 13
#define LEAF_BYTES (2 + NONCE_BYTES)
#define SIBLINGS_AT (1 + NONCE_BYTES)
#define CHILDREN 4
#define LEVELS 3 /* above the leaves, for PEEL_MAX_TABLE of them */
#define NODE_BYTES(children) (1 + (children) * HASH_BYTES)
#define NODE_MARK 64 /* the first byte of a node of level l is NODE_MARK + l; that of a leaf is its index */
#define ODDS_AT 14   /* in a name */

/* ---- The coin ---- */

typedef struct {
  uint32_t keep;
  uint32_t change;
  uint32_t symbols;
  uint32_t size; /* K */
} coin;

static int make_coin(coin *c, uint32_t keep, uint32_t change, uint32_t symbols) {
  if (change < 1 || keep <= change || keep > PEEL_MAX_TABLE || symbols < 2 || symbols > PEEL_MAX_TABLE) return PEEL_E_COIN;
  c->keep = keep;
  c->change = change;
  c->symbols = symbols;
  c->size = keep + (symbols - 1) * change;
  return c->size <= PEEL_MAX_TABLE ? PEEL_OK : PEEL_E_COIN;
}

static int read_coin(coin *c, const uint8_t name[PEEL_COIN_NAME_BYTES]) {
  const uint8_t *odds = name + ODDS_AT;
  if (odds[3] | odds[4] | odds[5]) return PEEL_E_COIN;
  return make_coin(c, odds[0], odds[1], odds[2]);
}

int peel_coin_name(uint8_t name[PEEL_COIN_NAME_BYTES], const peel_header *header, uint32_t keep, uint32_t change, uint32_t symbols) {
  uint8_t bytes[PEEL_HEADER_BYTES];
  coin c;
  int error = peel_header_write(bytes, header);
  if (error) return error;
  error = make_coin(&c, keep, change, symbols);
  if (error) return error;
  memcpy(name, bytes + PEEL_PROFILE_AT, ODDS_AT);
  memset(name + ODDS_AT, 0, PEEL_COIN_NAME_BYTES - ODDS_AT);
  name[ODDS_AT] = (uint8_t)keep;
  name[ODDS_AT + 1] = (uint8_t)change;
  name[ODDS_AT + 2] = (uint8_t)symbols;
  return PEEL_OK;
}

/* ---- Mask, shift and outcomes ---- */

void peel_coin_seed(uint8_t seed[16], const uint8_t secret[16], uint64_t number) {
  uint8_t nonce[16] = {0};
  for (unsigned i = 0; i < 6; i++) nonce[i] = (uint8_t)(number >> 8 * i);
  peel_ascon_stream(seed, 16, secret, nonce);
}

/* The words of a seed: block number count of its keystreams, of which used bytes are spent. */
typedef struct {
  uint8_t block[16];
  uint8_t count;
  uint8_t used;
} words;

static void start_words(words *w) {
  w->count = 0;
  w->used = sizeof w->block;
}

static uint32_t draw(words *w, const uint8_t seed[16], uint32_t bound) {
  uint32_t mask = 1, value;
  while (mask < bound - 1) mask = mask << 1 | 1;
  //@ loop unroll 8;
  do {
    if (w->used >= sizeof w->block) {
      uint8_t nonce[16] = {0};
      nonce[0] = ++w->count;
      peel_ascon_stream(w->block, sizeof w->block, seed, nonce);
      w->used = 0;
    }
    value = load32(w->block + w->used) & mask;
    w->used = (uint8_t)(w->used + 4);
  } while (value >= bound);
  return value;
}

/* 1 if a >= b, otherwise 0, for values below 2^31. */
static uint32_t at_least(uint32_t a, uint32_t b) { return ~(a - b) >> 31; }

/* x mod bound, for x < 2 bound. */
static uint32_t reduced(uint32_t x, uint32_t bound) { return x - (bound & (0 - at_least(x, bound))); }

/* The pattern's offset at place u counts the steps at or below it. */
static uint32_t outcome(const coin *c, uint32_t mask, uint32_t u) {
  uint32_t offset = 0, step = c->keep;
  for (uint32_t i = 1; i < c->symbols; i++, step += c->change) offset += at_least(u, step);
  return reduced(mask + offset, c->symbols);
}

int peel_coin_mask(const uint8_t seed[16], uint32_t symbols, uint32_t answer) {
  words w;
  if (symbols < 2 || symbols >= PEEL_MAX_TABLE) return PEEL_E_COIN;
  if (answer >= symbols) return PEEL_E_READING;
  start_words(&w);
  uint32_t masked = reduced(answer + symbols - draw(&w, seed, symbols), symbols);
  wipe(&w, sizeof w);
  return (int)masked;
}

uint32_t peel_coin_index(const uint8_t challenge_seed[16], uint64_t number, uint32_t size) {
  peel_xof xof;
  uint8_t bytes[6];
  for (unsigned i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(number >> 8 * i);
  peel_hash_init(&xof, "peel/1 coin index");
  (void)peel_xof_absorb(&xof, challenge_seed, 16); /* cannot fail before a squeeze */
  (void)peel_xof_absorb(&xof, bytes, sizeof bytes);
  peel_xof_squeeze(&xof, bytes, 4);
  return (uint32_t)((uint64_t)load32(bytes) * size >> 32);
}

/* ---- The tree ---- */

/* Of the path to index, at a level: the children of its node, and its own place among them. */
static uint32_t children_at(uint32_t size, uint32_t index, unsigned level) {
  uint32_t last = (size - 1) >> 2 * level, first = index >> 2 * level & ~(uint32_t)(CHILDREN - 1);
  return last - first < CHILDREN ? last - first + 1 : CHILDREN;
}

static uint32_t place_at(uint32_t index, unsigned level) { return index >> 2 * level & (CHILDREN - 1); }

static int is_root(uint32_t size, unsigned level) { return (size - 1) >> 2 * level == 0; }

static size_t opening_size(uint32_t size, uint32_t index) {
  size_t bytes = SIBLINGS_AT;
  for (unsigned level = 0; level < LEVELS && !is_root(size, level); level++) bytes += HASH_BYTES * (children_at(size, index, level) - 1);
  return bytes;
}

int peel_coin_opening_bytes(uint32_t size, uint32_t index) {
  if (size < 3 || size > PEEL_MAX_TABLE || index >= size) return PEEL_E_COIN;
  return (int)opening_size(size, index);
}

/* Label and name fill four blocks of the hash exactly. */
static void start_hash(peel_xof *prefix, const uint8_t name[PEEL_COIN_NAME_BYTES]) {
  peel_hash_init(prefix, "peel/1 coin");
  (void)peel_xof_absorb(prefix, name, PEEL_COIN_NAME_BYTES); /* cannot fail before a squeeze */
}

static void finish_hash(uint8_t out[HASH_BYTES], peel_xof *scratch, const peel_xof *prefix, const uint8_t *data, size_t len) {
  *scratch = *prefix;
  (void)peel_xof_absorb(scratch, data, len);
  peel_xof_squeeze(scratch, out, HASH_BYTES);
}

/* What becomes of a table while its leaves are made one after the other. A level keeps the children of one node: the last one begun. */
typedef struct {
  peel_xof prefix;
  peel_xof scratch;
  peel_keystream nonces;
  words draws;
  uint8_t leaf[LEAF_BYTES];
  uint8_t node[HASH_BYTES];
  uint8_t levels[LEVELS][NODE_BYTES(CHILDREN)];
} tree;

/* An opening to be written; out is NULL if none is wanted. */
typedef struct {
  uint8_t *out;
  uint32_t index;
  size_t at[LEVELS]; /* where the siblings of each level begin */
} path;

static void start_path(path *p, uint8_t *out, uint32_t size, uint32_t index) {
  size_t at = SIBLINGS_AT;
  p->out = out;
  p->index = index;
  for (unsigned level = 0; level < LEVELS; level++) {
    p->at[level] = at;
    if (!is_root(size, level)) at += HASH_BYTES * (children_at(size, index, level) - 1);
  }
}

/* Copy the node to the opening if it is a sibling of the path. */
static void keep_sibling(const path *p, const uint8_t node[HASH_BYTES], uint32_t index, unsigned level) {
  uint32_t own = p->index >> 2 * level, place = index & (CHILDREN - 1), own_place = own & (CHILDREN - 1);
  if (!p->out || index == own || index / CHILDREN != own / CHILDREN) return;
  if (place > own_place) place--;
  memcpy(p->out + p->at[level] + HASH_BYTES * place, node, HASH_BYTES);
}

/* Add leaf number index, and every node that it completes. */
static void add_leaf(tree *t, const path *p, uint32_t size, uint32_t index) {
  finish_hash(t->node, &t->scratch, &t->prefix, t->leaf, LEAF_BYTES);
  for (unsigned level = 0; level < LEVELS && !is_root(size, level); level++, index /= CHILDREN) {
    uint32_t place = index & (CHILDREN - 1), last = (size - 1) >> 2 * level;
    uint8_t *parent = t->levels[level];
    keep_sibling(p, t->node, index, level);
    memcpy(parent + NODE_BYTES(place), t->node, HASH_BYTES);
    if (place != CHILDREN - 1 && index != last) return;
    parent[0] = (uint8_t)(NODE_MARK + level + 1);
    finish_hash(t->node, &t->scratch, &t->prefix, parent, NODE_BYTES(place + 1));
  }
}

static void make_table(uint8_t root[HASH_BYTES], const path *p, const coin *c, const uint8_t name[PEEL_COIN_NAME_BYTES],
                       const uint8_t seed[16]) {
  tree t;
  memset(&t, 0, sizeof t);
  start_words(&t.draws);
  uint32_t mask = draw(&t.draws, seed, c->symbols), u = draw(&t.draws, seed, c->size);
  start_hash(&t.prefix, name);
  peel_keystream_start(&t.nonces, seed, t.node); /* the node is zero still */
  for (uint32_t j = 0; j < c->size; j++, u = reduced(u + 1, c->size)) {
    t.leaf[0] = (uint8_t)j;
    t.leaf[1] = (uint8_t)outcome(c, mask, u);
    peel_keystream_take(&t.nonces, t.leaf + 2, NONCE_BYTES);
    if (p->out && j == p->index) memcpy(p->out, t.leaf + 1, SIBLINGS_AT);
    add_leaf(&t, p, c->size, j);
  }
  memcpy(root, t.node, HASH_BYTES);
  wipe(&t, sizeof t);
}

int peel_coin_root(uint8_t root[HASH_BYTES], const uint8_t name[PEEL_COIN_NAME_BYTES], const uint8_t seed[16]) {
  coin c;
  path p = {0};
  int error = read_coin(&c, name);
  if (error) return error;
  make_table(root, &p, &c, name, seed);
  return PEEL_OK;
}

int peel_coin_open(uint8_t *out, size_t capacity, uint8_t root[HASH_BYTES], const uint8_t name[PEEL_COIN_NAME_BYTES],
                   const uint8_t seed[16], uint32_t index) {
  coin c;
  path p;
  int error = read_coin(&c, name);
  if (error) return error;
  if (index >= c.size) return PEEL_E_COIN;
  size_t size = opening_size(c.size, index);
  if (capacity < size) return PEEL_E_LENGTH;
  start_path(&p, out, c.size, index);
  make_table(root, &p, &c, name, seed);
  return (int)size;
}

int peel_coin_verify(const uint8_t root[HASH_BYTES], const uint8_t name[PEEL_COIN_NAME_BYTES], uint32_t index, const uint8_t *opening,
                     size_t len) {
  coin c;
  peel_xof prefix, scratch;
  uint8_t node[HASH_BYTES], data[NODE_BYTES(CHILDREN)], difference = 0;
  int error = read_coin(&c, name);
  if (error) return error;
  if (index >= c.size) return PEEL_E_COIN;
  if (len != opening_size(c.size, index)) return PEEL_E_LENGTH;
  if (opening[0] >= c.symbols) return PEEL_E_OUTCOME;
  start_hash(&prefix, name);
  data[0] = (uint8_t)index;
  memcpy(data + 1, opening, SIBLINGS_AT);
  finish_hash(node, &scratch, &prefix, data, LEAF_BYTES);
  const uint8_t *siblings = opening + SIBLINGS_AT;
  for (unsigned level = 0; level < LEVELS && !is_root(c.size, level); level++) {
    uint32_t children = children_at(c.size, index, level), place = place_at(index, level);
    data[0] = (uint8_t)(NODE_MARK + level + 1);
    for (uint32_t child = 0; child < children; child++) {
      memcpy(data + NODE_BYTES(child), child == place ? node : siblings, HASH_BYTES);
      if (child != place) siblings += HASH_BYTES;
    }
    finish_hash(node, &scratch, &prefix, data, NODE_BYTES(children));
  }
  for (size_t i = 0; i < sizeof node; i++) difference |= (uint8_t)(node[i] ^ root[i]);
  return difference ? PEEL_E_ROOT : opening[0];
}
