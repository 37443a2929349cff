/* SPDX-License-Identifier: MIT */
#include "batch.h"

#include <string.h>

/* ---- Splitting payloads ---- */

typedef struct {
  int code;
  uint8_t type;
  int32_t profile;
  peel_header header;
} piece;

static int32_t find_profile(const peel_batch_keyring *keyring, uint32_t id) {
  for (size_t i = 0; i < keyring->profile_count; i++) {
    if (keyring->profiles[i].id == id) return (int32_t)i;
  }
  return -1;
}

static int32_t find_device(const peel_batch_keyring *keyring, uint32_t id) {
  size_t low = 0, high = keyring->device_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (keyring->devices[middle] < id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < keyring->device_count && keyring->devices[low] == id ? (int32_t)low : -1;
}

/* Find the bundle of the device at slot with the largest first number that is not above number. Returns -1 if all begin above it, or if
 * that bundle ends before it. */
static int32_t find_bundle(const peel_batch_keyring *keyring, int32_t slot, uint64_t number) {
  size_t begin = slot > 0 ? keyring->ends[slot - 1] : 0, low = begin, high = keyring->ends[slot];
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (keyring->first_numbers[middle] <= number) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low > begin && number <= keyring->last_numbers[low - 1] ? (int32_t)(low - 1) : -1;
}

void peel_batch_find(int32_t *out, const peel_batch_keyring *keyring, const uint32_t *devices, const uint64_t *numbers, size_t count) {
  for (size_t i = 0; i < count; i++) {
    int32_t slot = find_device(keyring, devices[i]);
    out[i] = slot < 0 ? -1 : find_bundle(keyring, slot, numbers[i]);
  }
}

static size_t body_bytes(uint8_t type, const peel_batch_profile *profile) {
  if (type == PEEL_COMMITMENT) return PEEL_BATCH_NUMBERS * PEEL_COIN_HASH_BYTES;
  return type == PEEL_OPENING ? profile->opening : 16 * (size_t)profile->audits;
}

/* Read the header of a report or, in byte 1, of a message. */
static int read_header(piece *p, const uint8_t *data, size_t len) {
  if (len < PEEL_HEADER_BYTES || data[1] == 0) return peel_header_read(&p->header, data, len);
  int type = peel_message_read(&p->header, data, len);
  if (type < 0) return type;
  p->type = (uint8_t)type;
  return PEEL_OK;
}

/* Parse the next piece of a payload as far as SPEC section 9 allows without a key. Returns its length. */
static size_t split(piece *p, const peel_batch_keyring *keyring, const uint8_t *data, size_t len) {
  memset(p, 0, sizeof *p);
  p->profile = -1;
  p->code = read_header(p, data, len);
  if (p->code) return len;
  p->profile = find_profile(keyring, p->header.profile);
  if (p->type && (p->profile < 0 || keyring->profiles[p->profile].audits == 0)) {
    p->code = PEEL_E_FLAGS;
    p->profile = -1;
    p->type = 0;
    return len;
  }
  if (p->profile < 0) {
    p->code = PEEL_E_PROFILE;
    return len;
  }
  const peel_batch_profile *profile = &keyring->profiles[p->profile];
  size_t size = p->type ? PEEL_MESSAGE_BYTES(body_bytes(p->type, profile)) : (size_t)peel_frame_bytes(profile->width, p->header.flags);
  if (len < size) {
    p->code = PEEL_E_LENGTH;
    return len;
  }
  if (p->header.device == 0) {
    p->code = PEEL_E_DEVICE;
  } else if (p->header.number == 0) {
    p->code = PEEL_E_NUMBER;
  }
  return size;
}

size_t peel_batch_count(const peel_batch_keyring *keyring, const uint8_t *data, const uint64_t *ends, size_t count) {
  size_t pieces = 0;
  uint64_t at = 0;
  for (size_t i = 0; i < count; i++) {
    do {
      piece p;
      at += split(&p, keyring, data + at, (size_t)(ends[i] - at));
      pieces++;
    } while (at < ends[i]);
  }
  return pieces;
}

/* ---- Opening ---- */

/* body gets the body of a message. */
static void open_piece(peel_batch_rows *rows, size_t row, uint8_t *body, const peel_batch_keyring *keyring, const uint8_t *frame,
                       size_t length, piece *p) {
  int32_t slot = find_device(keyring, p->header.device);
  int32_t bundle = slot < 0 ? -1 : find_bundle(keyring, slot, p->header.number);
  if (bundle < 0) {
    p->code = PEEL_E_DEVICE;
    return;
  }
  rows->slot[row] = slot;
  if (keyring->profile_of[bundle] != p->profile) {
    p->code = PEEL_E_PROFILE;
    return;
  }
  const peel_batch_profile *profile = &keyring->profiles[p->profile];
  if (p->type) {
    int type = peel_message_open(body, length - PEEL_MESSAGE_BYTES(0), keyring->coin_keys + 16 * (size_t)bundle, frame, length);
    p->code = type < 0 ? type : PEEL_OK;
    return;
  }
  if ((p->header.flags & PEEL_FLAG_UNSEALED) && (!keyring->accept_unsealed || profile->audits)) {
    p->code = PEEL_E_UNSEALED;
    return;
  }
  const uint8_t *seal_key = keyring->seal_keys + 16 * (size_t)bundle;
  uint8_t *packed = rows->packed + row * rows->stride;
  p->code = p->header.flags & PEEL_FLAG_UNSEALED ? peel_frame_open_unsealed(&rows->rule[row], packed, profile->width, frame, length)
                                                 : peel_frame_open(&rows->rule[row], packed, seal_key, profile->width, frame, length);
  if (p->code || profile->units <= 1) return;
  uint32_t words[2];
  peel_index_words(words, keyring->index_keys + 16 * (size_t)bundle, frame);
  rows->unit[row] = peel_unit(profile->blocks, profile->block_count, words);
}

void peel_batch_open(peel_batch_rows *rows, const peel_batch_keyring *keyring, const uint8_t *data, const uint64_t *ends, size_t count) {
  size_t row = 0;
  uint64_t at = 0, start = 0;
  for (size_t i = 0; i < count; i++, start = at) {
    do {
      piece p;
      size_t length = split(&p, keyring, data + at, (size_t)(ends[i] - at));
      rows->message[row] = (int32_t)i;
      rows->offset[row] = (int32_t)(at - start);
      rows->length[row] = (int32_t)length;
      rows->flags[row] = p.header.flags;
      rows->type[row] = p.type;
      rows->device[row] = p.header.device;
      rows->number[row] = p.header.number;
      rows->profile[row] = p.profile;
      rows->slot[row] = -1;
      rows->rule[row] = 0;
      rows->unit[row] = 0;
      if (!p.code) open_piece(rows, row, rows->bodies + at + PEEL_HEADER_BYTES, keyring, data + at, length, &p);
      rows->code[row] = (int8_t)p.code;
      at += length;
      row++;
    } while (at < ends[i]);
  }
}

/* ---- Encoding ---- */

int peel_batch_encode(uint8_t *frames, size_t *failed, const peel_encoder *encoder, const uint32_t *devices, const uint8_t *seal_keys,
                      const uint8_t *index_keys, const uint64_t *numbers, const int32_t *readings, size_t readings_each, size_t count,
                      peel_drbg *drbg) {
  peel_encoder each = *encoder;
  int size = peel_frame_bytes(encoder->width, encoder->flags);
  *failed = 0;
  if (size < 0) return size;
  for (size_t i = 0; i < count; i++) {
    each.device = devices[i];
    each.coin_seed = encoder->coin_seed ? encoder->coin_seed + 16 * i : NULL;
    memcpy(each.seal_key, seal_keys + 16 * i, 16);
    memcpy(each.index_key, index_keys + 16 * i, 16);
    *failed = i;
    int written =
        peel_encode(frames + i * (size_t)size, (size_t)size, &each, numbers[i], readings + i * readings_each, readings_each, drbg);
    if (written < 0) {
      peel_wipe(&each, sizeof each);
      return written;
    }
  }
  peel_wipe(&each, sizeof each);
  return PEEL_OK;
}

int peel_batch_perturb(int32_t *indices, int8_t *signs, size_t *failed, const peel_block *blocks, size_t block_count, uint32_t width,
                       const uint32_t *words, const int32_t *readings, size_t readings_each, size_t count, peel_drbg *drbg) {
  *failed = 0;
  for (size_t i = 0; i < count; i++) {
    peel_symbol symbol;
    int error = peel_perturb(&symbol, blocks, block_count, width, words + 2 * i, readings + i * readings_each, readings_each, drbg);
    if (error) {
      *failed = i;
      return error;
    }
    indices[i] = (int32_t)symbol.index;
    signs[i] = symbol.minus ? -1 : 1;
  }
  return PEEL_OK;
}

int peel_batch_project(int8_t *out, uint32_t width, const uint32_t *rows, const uint32_t *indices, const uint8_t *minus, size_t count) {
  uint8_t packed[PEEL_MAX_TRIT_BYTES];
  for (size_t i = 0; i < count; i++) {
    peel_symbol symbol = {indices[i], minus[i] != 0};
    int size = peel_projection_encode(packed, 0, width, rows, symbol);
    if (size < 0) return size;
    peel_projection_unpack(out + i * (width - 1), width, packed);
  }
  return PEEL_OK;
}

void peel_batch_index(uint32_t *out, uint8_t flags, uint32_t profile, const peel_block *blocks, size_t block_count, const uint32_t *devices,
                      const uint8_t *index_keys, const uint64_t *numbers, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint8_t header[PEEL_HEADER_BYTES] = {0};
    peel_header fields = {flags, profile, devices[i], numbers[i]};
    uint32_t words[2];
    out[i] = UINT32_MAX;
    if (peel_header_write(header, &fields)) continue;
    peel_index_words(words, index_keys + 16 * i, header);
    out[i] = peel_unit(blocks, block_count, words);
  }
}

/* ---- Keys ---- */

/* Derive the key with number purpose of a bundle. The input that the bundle's keys share has been absorbed. */
static void derive(uint8_t key[16], const peel_xof *shared, uint8_t purpose) {
  peel_xof xof = *shared;
  peel_xof_absorb(&xof, &purpose, 1);
  peel_xof_squeeze(&xof, key, 16);
  peel_wipe(&xof, sizeof xof);
}

void peel_batch_derive(uint8_t *seal_keys, uint8_t *index_keys, uint8_t *receipt_keys, uint8_t *coin_keys, const uint8_t master[32],
                       const uint8_t *fleet, size_t fleet_len, const uint32_t *devices, const uint64_t *first_numbers, const uint8_t *salts,
                       size_t count) {
  peel_xof prefix;
  uint8_t len = (uint8_t)fleet_len;
  peel_hash_init(&prefix, "peel/1 key");
  peel_xof_absorb(&prefix, master, 32);
  peel_xof_absorb(&prefix, &len, 1);
  peel_xof_absorb(&prefix, fleet, fleet_len);
  for (size_t i = 0; i < count; i++) {
    peel_xof shared = prefix;
    uint8_t bundle[10];
    for (int b = 0; b < 4; b++) bundle[b] = (uint8_t)(devices[i] >> 8 * b);
    for (int b = 0; b < 6; b++) bundle[4 + b] = (uint8_t)(first_numbers[i] >> 8 * b);
    peel_xof_absorb(&shared, bundle, sizeof bundle);
    peel_xof_absorb(&shared, salts + 16 * i, 16);
    derive(seal_keys + 16 * i, &shared, 1);
    derive(index_keys + 16 * i, &shared, 2);
    derive(receipt_keys + 16 * i, &shared, 3);
    derive(coin_keys + 16 * i, &shared, 4);
    peel_wipe(&shared, sizeof shared);
  }
  peel_wipe(&prefix, sizeof prefix);
}

/* ---- Receipts ---- */

int peel_batch_receipts(uint8_t *out, size_t *failed, const uint32_t *devices, const uint8_t *receipt_keys, const uint64_t *upto,
                        const peel_run *runs, const uint64_t *run_ends, size_t count) {
  uint64_t start = 0;
  for (size_t i = 0; i < count; start = run_ends[i], i++) {
    size_t mine = (size_t)(run_ends[i] - start);
    *failed = i;
    int size = peel_receipt_write(out, PEEL_RECEIPT_BYTES(mine), receipt_keys + 16 * i, devices[i], upto[i], runs + start, mine);
    if (size < 0) return size;
    out += size;
  }
  return PEEL_OK;
}

int peel_batch_coin_receipts(uint8_t *out, size_t *failed, const uint32_t *devices, const uint8_t *receipt_keys, const uint64_t *upto,
                             const peel_run *runs, const uint64_t *run_ends, const peel_coin_fields *fields, const peel_run *asked,
                             const uint64_t *asked_ends, size_t count) {
  uint64_t start = 0, asked_start = 0;
  for (size_t i = 0; i < count; start = run_ends[i], asked_start = asked_ends[i], i++) {
    size_t mine = (size_t)(run_ends[i] - start), of = (size_t)(asked_ends[i] - asked_start);
    *failed = i;
    int size = peel_coin_receipt_write(out, PEEL_COIN_RECEIPT_BYTES(mine, of), receipt_keys + 16 * i, devices[i], upto[i], runs + start,
                                       mine, fields + i, asked + asked_start);
    if (size < 0) return size;
    out += size;
  }
  return PEEL_OK;
}
