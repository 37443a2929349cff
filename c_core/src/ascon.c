/* SPDX-License-Identifier: MIT */
/* Ascon-AEAD128 and Ascon-XOF128, from NIST SP 800-232. No tables and no branches on data, hence constant time. */
#include "ascon.h"

#include <string.h>

#include "bytes.h"
#include "peel.h"

#define AEAD_IV 0x00001000808c0001ULL
#define XOF_IV 0x0000080000cc0003ULL
#define AEAD_RATE 16
#define XOF_RATE 8
#define DOMAIN_BIT 0x8000000000000000ULL

/* ---- Permutation ---- */

#if defined(__ARM_ARCH_6M__) && defined(__ARMEL__) && defined(__GNUC__) && !defined(__clang__)
#include "permute_armv6m.h"
#else

static inline uint64_t rotate(uint64_t x, unsigned n) { return x >> n | x << (64 - n); }

static void permute(uint64_t s[5], unsigned rounds) {
  uint64_t x0 = s[0], x1 = s[1], x2 = s[2], x3 = s[3], x4 = s[4];
  /* round constants 0xf0, 0xe1, ... 0x4b: fewer rounds use the last ones */
  for (uint32_t c = 0x4b + 15 * (rounds - 1); c >= 0x4b; c -= 15) {
    uint64_t t0, t1, t2, t3, t4;
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
    x0 ^= rotate(x0, 19) ^ rotate(x0, 28);
    x1 ^= rotate(x1, 61) ^ rotate(x1, 39);
    x2 ^= rotate(x2, 1) ^ rotate(x2, 6);
    x3 ^= rotate(x3, 10) ^ rotate(x3, 17);
    x4 ^= rotate(x4, 7) ^ rotate(x4, 41);
  }
  s[0] = x0;
  s[1] = x1;
  s[2] = x2;
  s[3] = x3;
  s[4] = x4;
}

#endif

/* ---- AEAD ---- */

static void aead_start(uint64_t s[5], const uint8_t key[16], const uint8_t nonce[16]) {
  s[0] = AEAD_IV;
  s[1] = load64(key);
  s[2] = load64(key + 8);
  s[3] = load64(nonce);
  s[4] = load64(nonce + 8);
  permute(s, 12);
  s[3] ^= load64(key);
  s[4] ^= load64(key + 8);
}

static void absorb_block(uint64_t s[5], const uint8_t block[AEAD_RATE]) {
  s[0] ^= load64(block);
  s[1] ^= load64(block + 8);
  permute(s, 8);
}

static void aead_absorb(uint64_t s[5], const uint8_t *ad, size_t len) {
  if (len > 0) {
    uint8_t last[AEAD_RATE] = {0};
    for (; len >= AEAD_RATE; len -= AEAD_RATE, ad += AEAD_RATE) absorb_block(s, ad);
    for (size_t i = 0; i < len; i++) last[i] = ad[i];
    last[len] = 1;
    absorb_block(s, last);
  }
  s[4] ^= DOMAIN_BIT;
}

static void crypt_word(uint64_t *s, uint8_t out[8], const uint8_t text[8], int opening) {
  uint64_t in = load64(text), result = *s ^ in;
  store64(out, result);
  *s = opening ? in : result;
}

/* Encrypt or decrypt: the state always takes up the ciphertext. */
static void aead_crypt(uint64_t s[5], uint8_t *out, const uint8_t *text, size_t len, int opening) {
  uint8_t block[AEAD_RATE];
  for (; len >= AEAD_RATE; len -= AEAD_RATE, out += AEAD_RATE, text += AEAD_RATE) {
    crypt_word(&s[0], out, text, opening);
    crypt_word(&s[1], out + 8, text + 8, opening);
    permute(s, 8);
  }
  store64(block, s[0]);
  store64(block + 8, s[1]);
  for (size_t i = 0; i < len; i++) {
    uint8_t in = text[i];
    out[i] = in ^ block[i];
    block[i] = opening ? in : out[i];
  }
  block[len] ^= 1;
  s[0] = load64(block);
  s[1] = load64(block + 8);
}

static void aead_finish(uint64_t s[5], uint8_t tag[16], const uint8_t key[16]) {
  s[2] ^= load64(key);
  s[3] ^= load64(key + 8);
  permute(s, 12);
  store64(tag, s[3] ^ load64(key));
  store64(tag + 8, s[4] ^ load64(key + 8));
}

static void aead(uint8_t *out, uint8_t tag[16], const uint8_t key[16], const uint8_t nonce[16], const uint8_t *ad, size_t ad_len,
                 const uint8_t *text, size_t text_len, int opening) {
  uint64_t s[5];
  aead_start(s, key, nonce);
  aead_absorb(s, ad, ad_len);
  aead_crypt(s, out, text, text_len, opening);
  aead_finish(s, tag, key);
  wipe(s, sizeof s);
}

void peel_ascon_seal(uint8_t *out, uint8_t tag[16], const uint8_t key[16], const uint8_t nonce[16], const uint8_t *ad, size_t ad_len,
                     const uint8_t *text, size_t text_len) {
  aead(out, tag, key, nonce, ad, ad_len, text, text_len, 0);
}

int peel_ascon_open(uint8_t *out, const uint8_t key[16], const uint8_t nonce[16], const uint8_t *ad, size_t ad_len, const uint8_t *text,
                    size_t text_len, const uint8_t *tag, size_t tag_len) {
  uint8_t expected[16];
  uint8_t difference = 0;
  if (tag_len < PEEL_TAG_BYTES || tag_len > sizeof expected) return PEEL_E_LENGTH;
  aead(out, expected, key, nonce, ad, ad_len, text, text_len, 1);
  for (size_t i = 0; i < tag_len; i++) difference |= (uint8_t)(expected[i] ^ tag[i]);
  wipe(expected, sizeof expected);
  if (difference) {
    wipe(out, text_len);
    return PEEL_E_SEAL;
  }
  return PEEL_OK;
}

void peel_ascon_stream(uint8_t *out, size_t out_len, const uint8_t key[16], const uint8_t nonce[16]) {
  uint64_t s[5];
  aead_start(s, key, nonce);
  aead_absorb(s, NULL, 0);
  for (; out_len >= AEAD_RATE; out_len -= AEAD_RATE, out += AEAD_RATE) {
    store64(out, s[0]);
    store64(out + 8, s[1]);
    if (out_len > AEAD_RATE) permute(s, 8); /* zero text leaves the state's rate unchanged */
  }
  if (out_len > 0) {
    uint8_t block[AEAD_RATE];
    store64(block, s[0]);
    store64(block + 8, s[1]);
    memcpy(out, block, out_len);
    wipe(block, sizeof block);
  }
  wipe(s, sizeof s);
}

void peel_keystream_start(peel_keystream *stream, const uint8_t key[16], const uint8_t nonce[16]) {
  aead_start(stream->s, key, nonce);
  aead_absorb(stream->s, NULL, 0);
  store64(stream->block, stream->s[0]);
  store64(stream->block + 8, stream->s[1]);
  stream->left = AEAD_RATE;
}

void peel_keystream_take(peel_keystream *stream, uint8_t *out, uint8_t len) {
  uint8_t first = len < stream->left ? len : stream->left, rest = (uint8_t)(len - first);
  memcpy(out, stream->block + AEAD_RATE - stream->left, first);
  stream->left = (uint8_t)(stream->left - first);
  if (rest == 0) return;
  permute(stream->s, 8); /* zero text leaves the state's rate unchanged */
  store64(stream->block, stream->s[0]);
  store64(stream->block + 8, stream->s[1]);
  memcpy(out + first, stream->block, rest);
  stream->left = (uint8_t)(AEAD_RATE - rest);
}

/* ---- XOF ---- */

void peel_xof_init(peel_xof *xof) {
  memset(xof, 0, sizeof *xof);
  xof->s[0] = XOF_IV;
  permute(xof->s, 12);
}

/* Mask fill, so that a shift stays within the word even for a corrupt state. */
static unsigned shift_of(const peel_xof *xof) { return 8u * (xof->fill % XOF_RATE); }

static void count_byte(peel_xof *xof) { xof->fill = (uint8_t)((xof->fill + 1) % XOF_RATE); }

int peel_xof_absorb(peel_xof *xof, const uint8_t *data, size_t len) {
  if (xof->squeezing) return PEEL_E_ORDER;
  for (size_t i = 0; i < len;) {
    if (xof->fill == 0 && i + XOF_RATE <= len) {
      xof->s[0] ^= load64(data + i);
      i += XOF_RATE;
    } else {
      xof->s[0] ^= (uint64_t)data[i++] << shift_of(xof);
      count_byte(xof);
    }
    if (xof->fill == 0) permute(xof->s, 12);
  }
  return PEEL_OK;
}

void peel_xof_squeeze(peel_xof *xof, uint8_t *out, size_t len) {
  if (!xof->squeezing) {
    xof->s[0] ^= (uint64_t)1 << shift_of(xof);
    xof->squeezing = 1;
    xof->fill = 0;
  }
  for (size_t i = 0; i < len;) {
    if (xof->fill == 0) permute(xof->s, 12);
    if (xof->fill == 0 && i + XOF_RATE <= len) {
      store64(out + i, xof->s[0]);
      i += XOF_RATE;
    } else {
      out[i++] = (uint8_t)(xof->s[0] >> shift_of(xof));
      count_byte(xof);
    }
  }
}

void peel_hash_init(peel_xof *xof, const char *label) {
  uint8_t len = 0;
  while (label[len]) len++;
  peel_xof_init(xof);
  peel_xof_absorb(xof, &len, 1);
  peel_xof_absorb(xof, (const uint8_t *)label, len);
}

void peel_wipe(void *data, size_t len) { wipe(data, len); }
