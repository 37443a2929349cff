/* SPDX-License-Identifier: MIT */
/* Ascon with any output, for harnesses that call it too often to analyse each call. It touches the same memory as the functions in
 * ascon.c, for which harness ascon has the proof. */
#include "../src/ascon.h"
#include "peel.h"
#include "unknown.h"

static uint8_t sink;

static void read_all(const uint8_t *data, size_t len) {
  for (size_t i = 0; i < len; i++) sink = data[i];
}

static void write_all(uint8_t *out, size_t len) {
  for (size_t i = 0; i < len; i++) out[i] = ANY_U8();
}

void peel_xof_init(peel_xof *xof) { UNKNOWN(*xof); }

void peel_hash_init(peel_xof *xof, const char *label) {
  for (; *label; label++) sink = (uint8_t)*label;
  UNKNOWN(*xof);
}

int peel_xof_absorb(peel_xof *xof, const uint8_t *data, size_t len) {
  read_all(data, len);
  UNKNOWN(*xof);
  return PEEL_OK;
}

void peel_xof_squeeze(peel_xof *xof, uint8_t *out, size_t len) {
  UNKNOWN(*xof);
  write_all(out, len);
}

void peel_ascon_seal(uint8_t *out, uint8_t tag[16], const uint8_t key[16], const uint8_t nonce[16], const uint8_t *ad, size_t ad_len,
                     const uint8_t *text, size_t text_len) {
  read_all(key, 16);
  read_all(nonce, 16);
  read_all(ad, ad_len);
  read_all(text, text_len);
  write_all(out, text_len);
  write_all(tag, 16);
}

int peel_ascon_open(uint8_t *out, const uint8_t key[16], const uint8_t nonce[16], const uint8_t *ad, size_t ad_len, const uint8_t *text,
                    size_t text_len, const uint8_t *tag, size_t tag_len) {
  read_all(key, 16);
  read_all(nonce, 16);
  read_all(ad, ad_len);
  read_all(text, text_len);
  read_all(tag, tag_len);
  write_all(out, text_len);
  return Frama_C_nondet(PEEL_OK, PEEL_E_SEAL);
}

void peel_wipe(void *data, size_t len) { write_all(data, len); }

void peel_ascon_stream(uint8_t *out, size_t out_len, const uint8_t key[16], const uint8_t nonce[16]) {
  read_all(key, 16);
  read_all(nonce, 16);
  write_all(out, out_len);
}

void peel_keystream_start(peel_keystream *stream, const uint8_t key[16], const uint8_t nonce[16]) {
  read_all(key, 16);
  read_all(nonce, 16);
  UNKNOWN(*stream);
}

void peel_keystream_take(peel_keystream *stream, uint8_t *out, uint8_t len) {
  UNKNOWN(*stream);
  write_all(out, len);
}
