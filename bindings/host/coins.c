/* SPDX-License-Identifier: MIT */
#include "coins.h"

#include <string.h>

#include "lanes.h"

static uint32_t load32(const uint8_t *from) {
  return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

#define NAME PEEL_COIN_NAME_BYTES
#define HASH PEEL_COIN_HASH_BYTES
#define NONCE 13
#define LEAF_BYTES (2 + NONCE)
#define OPENED_BYTES (1 + NONCE) /* the front of an opening */
#define CHILDREN 4
#define NODE_BYTES(children) (1 + HASH * (children))
#define NODE_MARK 64
#define LABEL "\x0bpeel/1 coin"
#define INDEX_LABEL "\x11peel/1 coin index"
#define LABEL_BYTES (sizeof LABEL - 1)
#define INDEX_LABEL_BYTES (sizeof INDEX_LABEL - 1)
#define BLOCK 64 /* rows whose hashes are made together */

/* The size of a coin's table, from the odds in its name. */
static uint32_t table_size(const uint8_t *name) { return name[14] + (name[16] - 1u) * name[15]; }

/* Whether a name is that of a coin that a verified profile may have. */
static int is_coin(const uint8_t *name) {
  return name[15] >= 1 && name[14] > name[15] && name[16] >= 2 && table_size(name) <= PEEL_MAX_TABLE && !(name[17] | name[18] | name[19]);
}

/* ---- Hashes side by side ---- */

/* Label and name fill whole blocks of the hash: all leaves and nodes of a number begin with the state behind them. */
static void start_names(peel_lane_state *states, uint8_t rows[][LABEL_BYTES + NAME], size_t count) {
  peel_xof fresh;
  peel_xof_init(&fresh);
  for (size_t i = 0; i < count; i++) {
    memcpy(states[i].word, fresh.s, sizeof fresh.s);
    memcpy(rows[i], LABEL, LABEL_BYTES);
  }
  peel_lanes_absorb(states, rows[0], LABEL_BYTES + NAME, count);
}

/* Messages of one length, until there is one for each lane. */
typedef struct {
  peel_lane_job jobs[PEEL_LANES];
  size_t count;
} queue;

static void flush(queue *q, size_t len) {
  peel_lanes_hash(q->jobs, len, q->count);
  q->count = 0;
}

static void add(queue *q, size_t len, const peel_lane_state *state, const uint8_t *data, uint8_t *hash) {
  peel_lane_job job = {state, data, hash};
  q->jobs[q->count] = job;
  if (++q->count == PEEL_LANES) flush(q, len);
}

void peel_coins_seeds(uint8_t *seeds, const uint8_t *secrets, const uint64_t *numbers, size_t count) {
  for (size_t i = 0; i < count; i++) peel_coin_seed(seeds + 16 * i, secrets + 16 * i, numbers[i]);
}

void peel_coins_mask(int8_t *masked, const uint8_t *seeds, const uint8_t *symbols, const uint8_t *answers, size_t count) {
  for (size_t i = 0; i < count; i++) masked[i] = (int8_t)peel_coin_mask(seeds + 16 * i, symbols[i], answers[i]);
}

/* ---- Tables ---- */

static uint32_t draw(const uint8_t seed[16], uint8_t block[16], uint8_t *blocks, uint8_t *used, uint32_t bound) {
  uint32_t mask = 1, value;
  while (mask < bound - 1) mask = mask << 1 | 1;
  do {
    if (*used == 16) {
      uint8_t nonce[16] = {0};
      nonce[0] = ++*blocks;
      peel_ascon_stream(block, 16, seed, nonce);
      *used = 0;
    }
    value = load32(block + *used) & mask;
    *used = (uint8_t)(*used + 4);
  } while (value >= bound);
  return value;
}

/* The outcomes of a number's table (SPEC section 13.1). The core's own code takes the same time for all seeds; a revealed seed needs none.
 */
static void make_outcomes(uint8_t outcomes[PEEL_MAX_TABLE], const uint8_t *name, const uint8_t seed[16]) {
  uint8_t block[16] = {0}, blocks = 0, used = 16;
  uint32_t keep = name[14], change = name[15], symbols = name[16], size = table_size(name);
  uint32_t mask = draw(seed, block, &blocks, &used, symbols), shift = draw(seed, block, &blocks, &used, size);
  for (uint32_t j = 0; j < size; j++) {
    uint32_t at = (shift + j) % size, offset = at < keep ? 0 : 1 + (at - keep) / change;
    outcomes[j] = (uint8_t)((mask + offset) % symbols);
  }
}

/* Tables of one size, until there is one for each lane. */
typedef struct {
  uint8_t *roots[PEEL_LANES];
  const uint8_t *names[PEEL_LANES];
  const uint8_t *seeds[PEEL_LANES];
  size_t count;
} tables;

static void make_roots(tables *t) {
  static const uint8_t zero[16];
  uint8_t rows[PEEL_LANES][LABEL_BYTES + NAME], keys[PEEL_LANES][16], outcomes[PEEL_LANES][PEEL_MAX_TABLE];
  uint8_t nonces[PEEL_LANES][(NONCE * PEEL_MAX_TABLE + 15) / 16 * 16], data[PEEL_LANES][NODE_BYTES(CHILDREN)];
  uint8_t nodes[PEEL_LANES][PEEL_MAX_TABLE][HASH];
  peel_lane_state states[PEEL_LANES];
  peel_lane_job jobs[PEEL_LANES];
  uint32_t size = table_size(t->names[0]);
  size_t count = t->count;
  for (size_t i = 0; i < count; i++) {
    memcpy(rows[i] + LABEL_BYTES, t->names[i], NAME);
    memcpy(keys[i], t->seeds[i], 16);
    make_outcomes(outcomes[i], t->names[i], t->seeds[i]);
    jobs[i].state = states + i;
    jobs[i].data = data[i];
  }
  start_names(states, rows, count);
  peel_lanes_stream(nonces[0], sizeof nonces[0], (NONCE * size + 15) / 16, keys[0], zero, count);
  for (uint32_t j = 0; j < size; j++) {
    for (size_t i = 0; i < count; i++) {
      data[i][0] = (uint8_t)j;
      data[i][1] = outcomes[i][j];
      memcpy(data[i] + 2, nonces[i] + NONCE * j, NONCE);
      jobs[i].hash = nodes[i][j];
    }
    peel_lanes_hash(jobs, LEAF_BYTES, count);
  }
  for (uint8_t level = 1; size > 1; level++) {
    uint32_t parents = (size + CHILDREN - 1) / CHILDREN;
    for (uint32_t parent = 0; parent < parents; parent++) {
      uint32_t left = size - CHILDREN * parent, children = left < CHILDREN ? left : CHILDREN;
      for (size_t i = 0; i < count; i++) {
        data[i][0] = (uint8_t)(NODE_MARK + level);
        memcpy(data[i] + 1, nodes[i][CHILDREN * parent], HASH * children);
        jobs[i].hash = nodes[i][parent];
      }
      peel_lanes_hash(jobs, NODE_BYTES(children), count);
    }
    size = parents;
  }
  for (size_t i = 0; i < count; i++) memcpy(t->roots[i], nodes[i][0], HASH);
  t->count = 0;
}

void peel_coins_roots(uint8_t *roots, int8_t *codes, const uint8_t *names, const uint8_t *seeds, size_t count) {
  tables by_size[PEEL_MAX_TABLE + 1];
  memset(by_size, 0, sizeof by_size);
  for (size_t i = 0; i < count; i++) {
    const uint8_t *name = names + NAME * i;
    codes[i] = (int8_t)(is_coin(name) ? 0 : PEEL_E_COIN);
    memset(roots + HASH * i, 0, HASH);
    if (codes[i]) continue;
    tables *t = by_size + table_size(name);
    t->roots[t->count] = roots + HASH * i;
    t->names[t->count] = name;
    t->seeds[t->count] = seeds + 16 * i;
    if (++t->count == PEEL_LANES) make_roots(t);
  }
  for (uint32_t size = 0; size <= PEEL_MAX_TABLE; size++) {
    if (by_size[size].count) make_roots(by_size + size);
  }
}

void peel_coins_open(uint8_t *openings, size_t stride, uint8_t *roots, int8_t *codes, const uint8_t *names, const uint8_t *seeds,
                     const uint8_t *indices, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint8_t *row = openings + stride * i, *root = roots + HASH * i;
    memset(root, 0, HASH);
    memset(row, 0, stride);
    int size = peel_coin_open(row, stride, root, names + NAME * i, seeds + 16 * i, indices[i]);
    codes[i] = (int8_t)(size < 0 ? size : 0);
  }
}

/* Whether a row has nothing but zeros after the opening. */
static int is_padded(const uint8_t *row, size_t size, size_t stride) {
  uint8_t rest = 0;
  for (size_t at = size; at < stride; at++) rest |= row[at];
  return rest == 0;
}

/* ---- Openings ---- */

/* Verify an opening alone. No opening is empty, so that a length of 0 is refused. */
static int verify_row(const uint8_t *root, const uint8_t *name, uint8_t index, const uint8_t *row, size_t stride) {
  int found = peel_coin_opening_bytes(table_size(name), index);
  size_t size = found > 0 ? (size_t)found : 0, len = size <= stride && is_padded(row, size, stride) ? size : 0;
  return peel_coin_verify(root, name, index, row, len);
}

/* Whether an opening has the form that its coin and index give it. */
static int is_opening(const uint8_t *name, uint8_t index, const uint8_t *row, size_t stride) {
  int size = is_coin(name) ? peel_coin_opening_bytes(table_size(name), index) : -1;
  return size > 0 && (size_t)size <= stride && row[0] < name[16] && is_padded(row, (size_t)size, stride);
}

/* What is computed of an opening: the node of one level, and the message that the next one is the hash of. */
typedef struct {
  uint32_t last;  /* the last node of the level */
  uint32_t index; /* the node of the level */
  const uint8_t *siblings;
  uint8_t node[HASH];
  uint8_t data[NODE_BYTES(CHILDREN)];
} climb;

/* Compute the roots that up to BLOCK openings lead to, level by level. */
static void climb_all(climb *climbs, const peel_lane_state *states, const size_t *rows, size_t count) {
  queue leaves = {{{0}}, 0}, queues[CHILDREN + 1];
  int left = 1;
  for (size_t i = 0; i < count; i++) add(&leaves, LEAF_BYTES, states + rows[i], climbs[i].data, climbs[i].node);
  flush(&leaves, LEAF_BYTES);
  memset(queues, 0, sizeof queues);
  for (uint8_t level = 1; left; level++) {
    left = 0;
    for (size_t i = 0; i < count; i++) {
      climb *c = climbs + i;
      if (c->last == 0) continue;
      uint32_t first = c->index / CHILDREN * CHILDREN, place = c->index - first;
      uint32_t children = c->last - first < CHILDREN ? c->last - first + 1 : CHILDREN;
      uint8_t *to = c->data;
      *to++ = (uint8_t)(NODE_MARK + level);
      for (uint32_t child = 0; child < children; child++, to += HASH) {
        memcpy(to, child == place ? c->node : c->siblings, HASH);
        if (child != place) c->siblings += HASH;
      }
      add(&queues[children], NODE_BYTES(children), states + rows[i], c->data, c->node);
      c->index /= CHILDREN;
      c->last /= CHILDREN;
      left |= c->last > 0;
    }
    for (uint32_t children = 1; children <= CHILDREN; children++) flush(&queues[children], NODE_BYTES(children));
  }
}

static void verify_block(int8_t *outcomes, const uint8_t *roots, const uint8_t *names, const uint8_t *indices, const uint8_t *openings,
                         size_t stride, size_t count) {
  uint8_t heads[BLOCK][LABEL_BYTES + NAME];
  peel_lane_state states[BLOCK];
  climb climbs[BLOCK];
  size_t rows[BLOCK], some = 0;
  for (size_t i = 0; i < count; i++) {
    const uint8_t *name = names + NAME * i, *row = openings + stride * i;
    memcpy(heads[i] + LABEL_BYTES, name, NAME);
    if (!is_opening(name, indices[i], row, stride)) {
      outcomes[i] = (int8_t)verify_row(roots + HASH * i, name, indices[i], row, stride);
      continue;
    }
    climb *c = climbs + some;
    c->last = table_size(name) - 1;
    c->index = indices[i];
    c->siblings = row + OPENED_BYTES;
    c->data[0] = indices[i];
    memcpy(c->data + 1, row, OPENED_BYTES);
    rows[some++] = i;
  }
  start_names(states, heads, count);
  climb_all(climbs, states, rows, some);
  for (size_t i = 0; i < some; i++) {
    int right = memcmp(climbs[i].node, roots + HASH * rows[i], HASH) == 0; /* both are public */
    outcomes[rows[i]] = (int8_t)(right ? openings[stride * rows[i]] : PEEL_E_ROOT);
  }
}

void peel_coins_verify(int8_t *outcomes, const uint8_t *roots, const uint8_t *names, const uint8_t *indices, const uint8_t *openings,
                       size_t stride, size_t count) {
  for (size_t i = 0; i < count; i += BLOCK) {
    size_t some = count - i < BLOCK ? count - i : BLOCK;
    verify_block(outcomes + i, roots + HASH * i, names + NAME * i, indices + i, openings + stride * i, stride, some);
  }
}

/* ---- Challenges and audits ---- */

void peel_coins_indices(uint8_t *indices, const uint8_t *challenge_seeds, const uint64_t *numbers, const uint8_t *sizes, size_t count) {
  uint8_t rows[PEEL_LANES][INDEX_LABEL_BYTES + 16 + 6], hashes[PEEL_LANES][HASH];
  peel_lane_state state;
  peel_lane_job jobs[PEEL_LANES];
  peel_xof fresh;
  peel_xof_init(&fresh);
  memcpy(state.word, fresh.s, sizeof fresh.s);
  for (size_t first = 0; first < count; first += PEEL_LANES) {
    size_t some = count - first < PEEL_LANES ? count - first : PEEL_LANES;
    for (size_t i = 0; i < some; i++) {
      uint8_t *number = rows[i] + INDEX_LABEL_BYTES + 16;
      peel_lane_job job = {&state, rows[i], hashes[i]};
      memcpy(rows[i], INDEX_LABEL, INDEX_LABEL_BYTES);
      memcpy(rows[i] + INDEX_LABEL_BYTES, challenge_seeds + 16 * (first + i), 16);
      for (unsigned place = 0; place < 6; place++) number[place] = (uint8_t)(numbers[first + i] >> 8 * place);
      jobs[i] = job;
    }
    peel_lanes_hash(jobs, sizeof rows[0], some);
    for (size_t i = 0; i < some; i++) indices[first + i] = (uint8_t)((uint64_t)load32(hashes[i]) * sizes[first + i] >> 32);
  }
}

#define REPORT_BYTES 23

static void put32(uint8_t *out, uint32_t value) {
  for (unsigned i = 0; i < 4; i++) out[i] = (uint8_t)(value >> 8 * i);
}

void peel_coins_challenges(uint8_t *seeds, const uint8_t challenge_key[16], const uint32_t *devices, const uint32_t *counts,
                           const uint8_t *reports, const uint64_t *ends, size_t count) {
  uint64_t start = 0;
  for (size_t i = 0; i < count; start = ends[i], i++) {
    uint8_t head[8];
    peel_xof xof;
    put32(head, devices[i]);
    put32(head + 4, counts[i]);
    peel_hash_init(&xof, "peel/1 challenge");
    (void)peel_xof_absorb(&xof, challenge_key, 16); /* cannot fail before a squeeze */
    (void)peel_xof_absorb(&xof, head, sizeof head);
    (void)peel_xof_absorb(&xof, reports + REPORT_BYTES * start, (size_t)(REPORT_BYTES * (ends[i] - start)));
    peel_xof_squeeze(&xof, seeds + 16 * i, 16);
  }
}

static uint32_t choose(const uint8_t key[16], uint32_t left) {
  uint8_t words[4 * PEEL_BATCH_NUMBERS];
  const uint8_t nonce[16] = {0};
  uint32_t chosen = 0;
  peel_ascon_stream(words, sizeof words, key, nonce);
  for (uint32_t j = 0; j < PEEL_BATCH_NUMBERS; j++) {
    if ((uint64_t)load32(words + 4 * j) * (PEEL_BATCH_NUMBERS - j) >> 32 < left) {
      chosen |= 1u << j;
      left--;
    }
  }
  return chosen;
}

void peel_coins_audits(uint32_t *bitmaps, const uint8_t challenge_key[16], const uint8_t *headers, const uint8_t *roots,
                       const uint8_t *audits, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint8_t key[16];
    peel_xof xof;
    peel_hash_init(&xof, "peel/1 audit");
    (void)peel_xof_absorb(&xof, challenge_key, 16); /* cannot fail before a squeeze */
    (void)peel_xof_absorb(&xof, headers + PEEL_HEADER_BYTES * i, PEEL_HEADER_BYTES);
    (void)peel_xof_absorb(&xof, roots + HASH * PEEL_BATCH_NUMBERS * i, HASH * PEEL_BATCH_NUMBERS);
    peel_xof_squeeze(&xof, key, sizeof key);
    bitmaps[i] = choose(key, audits[i]);
  }
}
