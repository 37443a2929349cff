/* SPDX-License-Identifier: MIT */
#include "lanes.h"

#include <string.h>

#define LANES PEEL_LANES
#define AEAD_IV 0x00001000808c0001ULL
#define DOMAIN_BIT 0x8000000000000000ULL

/* The compiler makes vector instructions of this; on x86-64 there is a copy for each of its vector sizes, chosen when the program starts.
 */
#if LANES > 1
typedef uint64_t lanes __attribute__((vector_size(8 * LANES)));
#define LANE(all, lane) (all)[lane]
#else
typedef uint64_t lanes;
#define LANE(all, lane) (all)
#endif

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_SIZE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_SIZE
#endif
#define INLINE static inline __attribute__((always_inline))

typedef struct {
  lanes word[5];
} state;

INLINE void permute(state *s, unsigned rounds) {
  lanes x0 = s->word[0], x1 = s->word[1], x2 = s->word[2], x3 = s->word[3], x4 = s->word[4];
#define ROTATE(x, n) ((x) >> (n) | (x) << (64 - (n)))
  for (uint64_t c = 0x4b + 15 * (rounds - 1); c >= 0x4b; c -= 15) {
    lanes t0, t1, t2, t3, t4;
    x2 ^= c;
    x0 ^= x4;
    x4 ^= x3;
    x2 ^= x1;
    t0 = ~x0 & x1;
    t1 = ~x1 & x2;
    t2 = ~x2 & x3;
    t3 = ~x3 & x4;
    t4 = ~x4 & x0;
    x0 ^= t1;
    x1 ^= t2;
    x2 ^= t3;
    x3 ^= t4;
    x4 ^= t0;
    x1 ^= x0;
    x0 ^= x4;
    x3 ^= x2;
    x2 = ~x2;
    x0 ^= ROTATE(x0, 19) ^ ROTATE(x0, 28);
    x1 ^= ROTATE(x1, 61) ^ ROTATE(x1, 39);
    x2 ^= ROTATE(x2, 1) ^ ROTATE(x2, 6);
    x3 ^= ROTATE(x3, 10) ^ ROTATE(x3, 17);
    x4 ^= ROTATE(x4, 7) ^ ROTATE(x4, 41);
  }
#undef ROTATE
  s->word[0] = x0;
  s->word[1] = x1;
  s->word[2] = x2;
  s->word[3] = x3;
  s->word[4] = x4;
}

INLINE uint64_t load64(const uint8_t *from) {
  uint64_t word = 0;
  for (unsigned i = 0; i < 8; i++) word |= (uint64_t)from[i] << 8 * i;
  return word;
}

INLINE void store64(uint8_t *to, uint64_t word) {
  for (unsigned i = 0; i < 8; i++) to[i] = (uint8_t)(word >> 8 * i);
}

/* Lanes without a message repeat the last one. */
INLINE size_t lane_of(size_t lane, size_t count) { return lane < count ? lane : count - 1; }

INLINE void gather(state *s, const peel_lane_state *const from[LANES]) {
  for (unsigned word = 0; word < 5; word++) {
    for (unsigned lane = 0; lane < LANES; lane++) LANE(s->word[word], lane) = from[lane]->word[word];
  }
}

INLINE void absorb_words(state *s, const uint8_t *const rows[LANES], size_t words) {
  for (size_t at = 0; at < words; at++) {
    lanes block = {0};
    for (unsigned lane = 0; lane < LANES; lane++) LANE(block, lane) = load64(rows[lane] + 8 * at);
    s->word[0] ^= block;
    permute(s, 12);
  }
}

FOR_EACH_SIZE void peel_lanes_absorb(peel_lane_state *states, const uint8_t *data, size_t len, size_t count) {
  for (size_t first = 0; first < count; first += LANES) {
    const peel_lane_state *from[LANES];
    const uint8_t *rows[LANES];
    size_t some = count - first < LANES ? count - first : LANES;
    state s;
    for (unsigned lane = 0; lane < LANES; lane++) {
      from[lane] = states + first + lane_of(lane, some);
      rows[lane] = data + len * (first + lane_of(lane, some));
    }
    gather(&s, from);
    absorb_words(&s, rows, len / 8);
    for (unsigned word = 0; word < 5; word++) {
      for (size_t lane = 0; lane < some; lane++) states[first + lane].word[word] = LANE(s.word[word], lane);
    }
  }
}

FOR_EACH_SIZE void peel_lanes_hash(const peel_lane_job *jobs, size_t len, size_t count) {
  const peel_lane_state *from[LANES];
  const uint8_t *rows[LANES];
  lanes last = {0};
  state s;
  if (count == 0) return;
  for (unsigned lane = 0; lane < LANES; lane++) {
    const peel_lane_job *job = jobs + lane_of(lane, count);
    uint8_t rest[8] = {0};
    from[lane] = job->state;
    rows[lane] = job->data;
    for (size_t i = 0; i < len % 8; i++) rest[i] = job->data[len - len % 8 + i];
    rest[len % 8] = 1;
    LANE(last, lane) = load64(rest);
  }
  gather(&s, from);
  absorb_words(&s, rows, len / 8);
  s.word[0] ^= last;
  for (unsigned half = 0; half < 2; half++) {
    permute(&s, 12);
    for (size_t lane = 0; lane < count; lane++) store64(jobs[lane].hash + 8 * half, LANE(s.word[0], lane));
  }
}

FOR_EACH_SIZE void peel_lanes_stream(uint8_t *out, size_t stride, size_t blocks, const uint8_t *keys, const uint8_t nonce[16],
                                     size_t count) {
  lanes low = {0}, high = {0}, none = {0};
  state s;
  if (count == 0) return;
  for (unsigned lane = 0; lane < LANES; lane++) {
    const uint8_t *key = keys + 16 * lane_of(lane, count);
    LANE(low, lane) = load64(key);
    LANE(high, lane) = load64(key + 8);
  }
  s.word[0] = none + AEAD_IV;
  s.word[1] = low;
  s.word[2] = high;
  s.word[3] = none + load64(nonce);
  s.word[4] = none + load64(nonce + 8);
  permute(&s, 12);
  s.word[3] ^= low;
  s.word[4] ^= high ^ DOMAIN_BIT;
  for (size_t block = 0; block < blocks; block++) {
    if (block) permute(&s, 8);
    for (size_t lane = 0; lane < count; lane++) {
      store64(out + stride * lane + 16 * block, LANE(s.word[0], lane));
      store64(out + stride * lane + 16 * block + 8, LANE(s.word[1], lane));
    }
  }
}
