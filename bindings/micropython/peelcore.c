/* The MicroPython module peelcore: the Peel core's functions for Python on a device.
 *
 * SPDX-License-Identifier: MIT
 *
 * This file only converts arguments and raises. It is built two ways: into a firmware image as a user C module, and as a native
 * module (.mpy) for stock firmware. A native module can have no state, so encoders and generators live in bytearrays of the
 * caller's. README.md documents the Python side; c_core/include/peel.h the functions behind it.
 */
#if MICROPY_ENABLE_DYNRUNTIME
#include "py/dynruntime.h"
#else
#include "py/binary.h"
#include "py/objstr.h"
#include "py/runtime.h"
#endif

#include <string.h>

#include "peel.h"

#if MICROPY_ENABLE_DYNRUNTIME
/* A native module has no C library. MicroPython's runtime has two of the functions that the core and the compiler call. */
__attribute__((used)) void *memcpy(void *target, const void *source, size_t len) { return mp_fun_table.memmove_(target, source, len); }
__attribute__((used)) void *memset(void *target, int value, size_t len) { return mp_fun_table.memset_(target, value, len); }
__attribute__((used)) int memcmp(const void *one, const void *other, size_t len) {
  const uint8_t *a = one, *b = other;
  for (; len; a++, b++, len--)
    if (*a != *b) return *a - *b;
  return 0;
}
#endif

#if MICROPY_ENABLE_DYNRUNTIME && defined(__clang__)
/* MicroPython's linker relocates this section and not .rodata. GCC chooses it by itself. */
#define FUNCTION_OBJECT static __attribute__((section(".data.rel.ro")))
#define ENTRY_POINT __attribute__((used))
#else
#define FUNCTION_OBJECT static
#define ENTRY_POINT __attribute__((used, externally_visible)) /* otherwise whole-program optimisation would drop it */
#endif

#define PEELCORE_MAX_BYTES 65535 /* the longest hash or random string */

/* ---- Errors ----------------------------------------------------------------------------------------------------- */

/* Message of error -1, -2, ... of enum peel_error, each with its terminator. One string: a table of pointers would need relocations. */
static const char error_names[] =
    "length: a buffer is too short or too long\0"
    "version: not a version 1 frame\0"
    "flags: reserved bits are set\0"
    "block: form, weight, questions or number of blocks out of range\0"
    "profile: unknown\0"
    "device: 0 or unknown\0"
    "number: 0, negative or above 48 bits\0"
    "unsealed: only sealed frames here\0"
    "seal: the tag does not fit\0"
    "trits: invalid packing\0"
    "width: symbols or width out of range\0"
    "reading: wrong count, no such category, or none where all columns are used\0"
    "entropy: refused by the health check, or never seeded\0"
    "odds: not 1 <= change < keep <= 255\0"
    "domain: not 2 to 65535 categories, or not for this form\0"
    "order: absorbing after squeezing\0"
    "coin: odds, symbols or index out of range\0"
    "outcome\0"
    "root\0"
    "value: not an unsigned 32-bit integer\0"
    "index: at or above the limit";

/* Faults beyond enum peel_error, which C's types rule out but Python's do not. */
enum { PEELCORE_E_VALUE = -20, PEELCORE_E_INDEX = -21 };

static NORETURN void raise_code(int code) {
  static const char prefix[] = "peel: ";
  char message[sizeof prefix + 64];
  const char *name = error_names;
  for (; code < -1; code++)
    while (*name++) continue;
  size_t length = 0;
  while (name[length]) length++;
  memcpy(message, prefix, sizeof prefix - 1);
  memcpy(message + sizeof prefix - 1, name, length);
  mp_raise_type_arg(&mp_type_ValueError, mp_obj_new_str(message, sizeof prefix - 1 + length));
}

static int checked(int result) {
  if (result < 0) raise_code(result);
  return result;
}

/* ---- Arguments -------------------------------------------------------------------------------------------------- */

static mp_obj_t shifted(mp_obj_t value, mp_int_t bits) { return mp_binary_op(MP_BINARY_OP_RSHIFT, value, MP_OBJ_NEW_SMALL_INT(bits)); }

static bool exceeds(mp_obj_t value, mp_int_t bits) { return mp_obj_is_true(shifted(value, bits)); }

static uint32_t get_u32(mp_obj_t value) {
  if (exceeds(value, 32)) raise_code(PEELCORE_E_VALUE);
  return (uint32_t)mp_obj_get_int_truncated(value);
}

/* Readings may need all 32 bits, one or two more than a small integer has. */
static int32_t get_i32(mp_obj_t value) {
  int32_t number = 0;
  if (mp_obj_is_small_int(value)) {
    number = (int32_t)MP_OBJ_SMALL_INT_VALUE(value);
    if (number == MP_OBJ_SMALL_INT_VALUE(value)) return number;
  }
  mp_obj_t sign = shifted(value, 31);
  if (mp_obj_is_true(sign) && mp_obj_is_true(mp_binary_op(MP_BINARY_OP_ADD, sign, MP_OBJ_NEW_SMALL_INT(1)))) raise_code(PEEL_E_READING);
  mp_binary_set_val_array('i', &number, 0, value);
  return number;
}

/* Report numbers need 48 bits, more than a machine word on the boards. */
static uint64_t get_number(mp_obj_t value) {
  uint64_t number = 0;
  if (exceeds(value, 48)) raise_code(PEEL_E_NUMBER);
  mp_binary_set_val_array('Q', &number, 0, value);
  return number;
}

static mp_buffer_info_t get_bytes(mp_obj_t value) {
  mp_buffer_info_t buffer;
  mp_get_buffer_raise(value, &buffer, MP_BUFFER_READ);
  return buffer;
}

static const uint8_t *get_exactly(mp_obj_t value, size_t length) {
  mp_buffer_info_t buffer = get_bytes(value);
  if (buffer.len != length) raise_code(PEEL_E_LENGTH);
  return buffer.buf;
}

static peel_drbg *get_drbg(mp_obj_t value) {
  mp_buffer_info_t buffer;
  mp_get_buffer_raise(value, &buffer, MP_BUFFER_RW);
  peel_drbg *drbg = buffer.buf; /* bytes only, so alignment does not matter */
  if (buffer.len != sizeof *drbg || drbg->left > sizeof drbg->block) raise_code(PEEL_E_LENGTH);
  return drbg;
}

/* Return a number that fits in a field of a block; other numbers are refused with code. */
static uint32_t get_field(mp_obj_t value, uint32_t largest, int code) {
  uint32_t number = get_u32(value);
  if (number > largest) raise_code(code);
  return number;
}

/* Return the number of blocks: a sequence of (form, weight, questions, symbols, domain, keep, change). */
static size_t get_blocks(peel_block blocks[PEEL_MAX_BLOCKS], mp_obj_t value) {
  size_t count, fields;
  mp_obj_t *items, *item;
  mp_obj_get_array(value, &count, &items);
  if (count > PEEL_MAX_BLOCKS) raise_code(PEEL_E_BLOCK);
  for (size_t i = 0; i < count; i++) {
    mp_obj_get_array(items[i], &fields, &item);
    if (fields != 7) raise_code(PEEL_E_BLOCK);
    blocks[i].form = (uint8_t)get_field(item[0], 0xff, PEEL_E_BLOCK);
    blocks[i].weight = (uint8_t)get_field(item[1], 0xff, PEEL_E_BLOCK);
    blocks[i].questions = (uint16_t)get_field(item[2], 0xffff, PEEL_E_WIDTH);
    blocks[i].symbols = (uint16_t)get_field(item[3], 0xffff, PEEL_E_WIDTH);
    blocks[i].domain = (uint16_t)get_field(item[4], 0xffff, PEEL_E_DOMAIN);
    blocks[i].keep = (uint8_t)get_field(item[5], 0xff, PEEL_E_ODDS);
    blocks[i].change = (uint8_t)get_field(item[6], 0xff, PEEL_E_ODDS);
  }
  return count;
}

/* Return where the row cache begins behind an encoder and its blocks: aligned, as a block is not a whole number of words. */
static size_t rows_offset(size_t block_count) { return (sizeof(peel_encoder) + block_count * sizeof(peel_block) + 3) & ~(size_t)3; }

/* Copy the encoder out of its bytearray: the struct, the blocks, and the row cache if there is one. All pointers are set each time, as
 * an address in stored bytes cannot be trusted. */
static void get_encoder(peel_encoder *encoder, mp_obj_t value) {
  mp_buffer_info_t buffer = get_bytes(value);
  if (buffer.len < sizeof *encoder || ((uintptr_t)buffer.buf & 3)) raise_code(PEEL_E_LENGTH);
  memcpy(encoder, buffer.buf, sizeof *encoder);
  size_t size = rows_offset(encoder->block_count);
  if (buffer.len < size) raise_code(PEEL_E_LENGTH);
  encoder->blocks = (const peel_block *)((const uint8_t *)buffer.buf + sizeof *encoder);
  encoder->rows = NULL;
  encoder->coin_seed = NULL;
  checked(peel_encoder_check(encoder));
  if (buffer.len == size + (encoder->width - 1) * sizeof(uint32_t))
    encoder->rows = (const uint32_t *)((const uint8_t *)buffer.buf + size);
  else if (buffer.len != size)
    raise_code(PEEL_E_LENGTH);
}

/* Return readings for the core: in place if they are an aligned array of 32-bit integers, else in *copy, to be freed. */
static const int32_t *get_readings(int32_t **copy, size_t *count, mp_obj_t value) {
  mp_buffer_info_t buffer;
  mp_obj_t *items;
  *copy = NULL;
  if (mp_get_buffer(value, &buffer, MP_BUFFER_READ)) {
    bool words = buffer.typecode == 'i' || (buffer.typecode == 'l' && sizeof(long) == 4);
    if ((!words && buffer.typecode != 'B' && buffer.typecode != BYTEARRAY_TYPECODE) || buffer.len % 4) raise_code(PEEL_E_READING);
    *count = buffer.len / 4;
    if (((uintptr_t)buffer.buf & 3) == 0) return buffer.buf;
    *copy = m_new(int32_t, *count + 1);
    memcpy(*copy, buffer.buf, buffer.len);
    return *copy;
  }
  mp_obj_get_array(value, count, &items);
  *copy = m_new(int32_t, *count + 1);
  for (size_t i = 0; i < *count; i++) (*copy)[i] = get_i32(items[i]);
  return *copy;
}

static void release_readings(int32_t *copy, size_t count) {
  if (copy == NULL) return;
  peel_wipe(copy, count * sizeof *copy);
  m_del(int32_t, copy, count + 1);
}

static uint8_t *new_bytes(mp_obj_t length, size_t *count) {
  uint32_t wanted = get_u32(length);
  if (wanted > PEELCORE_MAX_BYTES) raise_code(PEEL_E_LENGTH);
  *count = wanted;
  return m_new(uint8_t, wanted + 1);
}

/* Return a scratch buffer's content as bytes and wipe the buffer. */
static mp_obj_t take_bytes(uint8_t *bytes, size_t count) {
  mp_obj_t result = mp_obj_new_bytes(bytes, count);
  peel_wipe(bytes, count);
  m_del(uint8_t, bytes, count + 1);
  return result;
}

/* ---- Functions -------------------------------------------------------------------------------------------------- */

enum { ENCODER_ARGS = 8 };

static mp_obj_t peelcore_encoder(size_t n_args, const mp_obj_t *args, mp_map_t *keywords) {
  const mp_arg_t allowed[] = {{MP_QSTR_cached, MP_ARG_BOOL, {.u_bool = false}}};
  mp_arg_val_t cached;
  mp_arg_parse_all(n_args - ENCODER_ARGS, args + ENCODER_ARGS, keywords, 1, allowed, &cached);

  peel_block blocks[PEEL_MAX_BLOCKS];
  peel_encoder encoder;
  memset(&encoder, 0, sizeof encoder);
  encoder.flags = (uint8_t)get_field(args[0], 0xff, PEEL_E_FLAGS);
  encoder.profile = get_u32(args[1]);
  encoder.device = get_u32(args[2]);
  encoder.width = get_u32(args[3]);
  encoder.seed = get_u32(args[4]);
  encoder.block_count = (uint8_t)get_blocks(blocks, args[5]);
  encoder.blocks = blocks;
  memcpy(encoder.seal_key, get_exactly(args[6], PEEL_KEY_BYTES), PEEL_KEY_BYTES);
  memcpy(encoder.index_key, get_exactly(args[7], PEEL_KEY_BYTES), PEEL_KEY_BYTES);
  checked(peel_encoder_check(&encoder));

  size_t rows_at = rows_offset(encoder.block_count);
  size_t size = rows_at + (cached.u_bool ? (encoder.width - 1) * sizeof(uint32_t) : 0);
  uint8_t *bytes = m_new(uint8_t, size);
  memset(bytes, 0, rows_at);
  memcpy(bytes, &encoder, sizeof encoder);
  memcpy(bytes + sizeof encoder, blocks, encoder.block_count * sizeof(peel_block));
  if (cached.u_bool) peel_projection_rows((uint32_t *)(bytes + rows_at), encoder.seed, encoder.width);
  peel_wipe(&encoder, sizeof encoder);
  return mp_obj_new_bytearray_by_ref(size, bytes);
}
FUNCTION_OBJECT MP_DEFINE_CONST_FUN_OBJ_KW(peelcore_encoder_obj, ENCODER_ARGS, peelcore_encoder);

static mp_obj_t peelcore_drbg(void) {
  peel_drbg *drbg = m_new(peel_drbg, 1);
  memset(drbg, 0, sizeof *drbg);
  return mp_obj_new_bytearray_by_ref(sizeof *drbg, drbg);
}
FUNCTION_OBJECT MP_DEFINE_CONST_FUN_OBJ_0(peelcore_drbg_obj, peelcore_drbg);

static mp_obj_t peelcore_drbg_seed(mp_obj_t drbg, mp_obj_t entropy) {
  mp_buffer_info_t input = get_bytes(entropy);
  checked(peel_drbg_seed(get_drbg(drbg), input.buf, input.len));
  return mp_const_none;
}
FUNCTION_OBJECT MP_DEFINE_CONST_FUN_OBJ_2(peelcore_drbg_seed_obj, peelcore_drbg_seed);

static mp_obj_t peelcore_drbg_bytes(mp_obj_t drbg, mp_obj_t length) {
  size_t count;
  uint8_t *bytes = new_bytes(length, &count);
  checked(peel_drbg_bytes(get_drbg(drbg), bytes, count));
  return take_bytes(bytes, count);
}
FUNCTION_OBJECT MP_DEFINE_CONST_FUN_OBJ_2(peelcore_drbg_bytes_obj, peelcore_drbg_bytes);

/* encode(out, encoder, drbg, number, readings[, coin_seed]) */
static mp_obj_t peelcore_encode(size_t n_args, const mp_obj_t *args) {
  mp_buffer_info_t out;
  peel_encoder encoder;
  int32_t *copy;
  size_t count;
  mp_get_buffer_raise(args[0], &out, MP_BUFFER_WRITE);
  uint64_t number = get_number(args[3]);
  peel_drbg *drbg = get_drbg(args[2]);
  const int32_t *readings = get_readings(&copy, &count, args[4]);
  get_encoder(&encoder, args[1]);
  if (n_args > 5) encoder.coin_seed = get_exactly(args[5], 16);
  int size = peel_encode(out.buf, out.len, &encoder, number, readings, count, drbg);
  peel_wipe(&encoder, sizeof encoder);
  release_readings(copy, count);
  return MP_OBJ_NEW_SMALL_INT(checked(size));
}
FUNCTION_OBJECT MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(peelcore_encode_obj, 5, 6, peelcore_encode);

/* perturb(blocks, width, word, word, readings, drbg): the coin alone, for self-tests */
static mp_obj_t peelcore_perturb(size_t n_args, const mp_obj_t *args) {
  (void)n_args;
  peel_symbol symbol = {0, 0};
  int32_t *copy;
  size_t count;
  peel_block blocks[PEEL_MAX_BLOCKS];
  peel_drbg *drbg = get_drbg(args[5]);
  size_t block_count = get_blocks(blocks, args[0]);
  uint32_t width = get_u32(args[1]), words[] = {get_u32(args[2]), get_u32(args[3])};
  const int32_t *readings = get_readings(&copy, &count, args[4]);
  int error = peel_perturb(&symbol, blocks, block_count, width, words, readings, count, drbg);
  release_readings(copy, count);
  checked(error);
  mp_obj_t pair[] = {MP_OBJ_NEW_SMALL_INT(symbol.index), MP_OBJ_NEW_SMALL_INT(symbol.minus)};
  return mp_obj_new_tuple(2, pair);
}
FUNCTION_OBJECT MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(peelcore_perturb_obj, 6, 6, peelcore_perturb);

/* seal(key, nonce, ad, text): Ascon-AEAD128 with its whole tag */
static mp_obj_t peelcore_seal(size_t n_args, const mp_obj_t *args) {
  (void)n_args;
  const uint8_t *key = get_exactly(args[0], PEEL_KEY_BYTES), *nonce = get_exactly(args[1], 16);
  mp_buffer_info_t ad = get_bytes(args[2]), text = get_bytes(args[3]);
  size_t count;
  uint8_t *bytes = new_bytes(MP_OBJ_NEW_SMALL_INT(text.len + 16), &count);
  peel_ascon_seal(bytes, bytes + text.len, key, nonce, ad.buf, ad.len, text.buf, text.len);
  return take_bytes(bytes, count);
}
FUNCTION_OBJECT MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(peelcore_seal_obj, 4, 4, peelcore_seal);

static mp_obj_t peelcore_stream(mp_obj_t key, mp_obj_t nonce, mp_obj_t length) {
  size_t count;
  const uint8_t *key_bytes = get_exactly(key, PEEL_KEY_BYTES), *nonce_bytes = get_exactly(nonce, 16);
  uint8_t *bytes = new_bytes(length, &count);
  peel_ascon_stream(bytes, count, key_bytes, nonce_bytes);
  return take_bytes(bytes, count);
}
FUNCTION_OBJECT MP_DEFINE_CONST_FUN_OBJ_3(peelcore_stream_obj, peelcore_stream);

static mp_obj_t peelcore_hash(mp_obj_t label, mp_obj_t data, mp_obj_t length) {
  mp_buffer_info_t name = get_bytes(label), input = get_bytes(data);
  uint8_t name_length = (uint8_t)name.len;
  size_t count;
  if (name.len > 255) raise_code(PEEL_E_LENGTH);
  uint8_t *bytes = new_bytes(length, &count);
  peel_xof xof;
  peel_xof_init(&xof);
  peel_xof_absorb(&xof, &name_length, 1);
  peel_xof_absorb(&xof, name.buf, name.len);
  peel_xof_absorb(&xof, input.buf, input.len);
  peel_xof_squeeze(&xof, bytes, count);
  peel_wipe(&xof, sizeof xof);
  return take_bytes(bytes, count);
}
FUNCTION_OBJECT MP_DEFINE_CONST_FUN_OBJ_3(peelcore_hash_obj, peelcore_hash);

static mp_obj_t peelcore_frame_open(mp_obj_t seal_key, mp_obj_t width, mp_obj_t frame) {
  mp_buffer_info_t input = get_bytes(frame);
  uint32_t rule = 0, n = get_u32(width);
  uint8_t trits[PEEL_MAX_TRIT_BYTES];
  checked(peel_frame_open(&rule, trits, get_exactly(seal_key, PEEL_KEY_BYTES), n, input.buf, input.len));
  mp_obj_t pair[] = {mp_obj_new_int_from_uint(rule), mp_obj_new_bytes(trits, PEEL_TRIT_BYTES(n))};
  return mp_obj_new_tuple(2, pair);
}
FUNCTION_OBJECT MP_DEFINE_CONST_FUN_OBJ_3(peelcore_frame_open_obj, peelcore_frame_open);

/* codeword(seed, width, index, minus) */
static mp_obj_t peelcore_codeword(size_t n_args, const mp_obj_t *args) {
  (void)n_args;
  uint32_t width = get_u32(args[1]);
  peel_symbol symbol = {get_u32(args[2]), mp_obj_is_true(args[3])};
  uint8_t trits[PEEL_MAX_TRIT_BYTES];
  if (width <= PEEL_MAX_WIDTH && symbol.index >= width) raise_code(PEELCORE_E_INDEX);
  return mp_obj_new_bytes(trits, (size_t)checked(peel_projection_encode(trits, get_u32(args[0]), width, NULL, symbol)));
}
FUNCTION_OBJECT MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(peelcore_codeword_obj, 4, 4, peelcore_codeword);

/* ---- Verified coins (SPEC section 13) --------------------------------------------------------------------------- */

/* A name is the last 14 bytes of a report's header, then keep, change, symbols and three zeros. */
static mp_obj_t peelcore_coin_name(mp_obj_t encoder, mp_obj_t number) {
  uint8_t name[PEEL_COIN_NAME_BYTES];
  peel_encoder device;
  uint64_t n = get_number(number);
  get_encoder(&device, encoder);
  int error = peel_encoder_coin(name, &device, n);
  peel_wipe(&device, sizeof device);
  checked(error);
  return mp_obj_new_bytes(name, sizeof name);
}
FUNCTION_OBJECT MP_DEFINE_CONST_FUN_OBJ_2(peelcore_coin_name_obj, peelcore_coin_name);

static mp_obj_t peelcore_coin_root(mp_obj_t name, mp_obj_t seed) {
  uint8_t root[PEEL_COIN_HASH_BYTES];
  checked(peel_coin_root(root, get_exactly(name, PEEL_COIN_NAME_BYTES), get_exactly(seed, 16)));
  return mp_obj_new_bytes(root, sizeof root);
}
FUNCTION_OBJECT MP_DEFINE_CONST_FUN_OBJ_2(peelcore_coin_root_obj, peelcore_coin_root);

static mp_obj_t peelcore_coin_open(mp_obj_t name, mp_obj_t seed, mp_obj_t index) {
  uint8_t root[PEEL_COIN_HASH_BYTES], opening[PEEL_MAX_OPENING_BYTES];
  const uint8_t *name_bytes = get_exactly(name, PEEL_COIN_NAME_BYTES), *seed_bytes = get_exactly(seed, 16);
  int size = checked(peel_coin_open(opening, sizeof opening, root, name_bytes, seed_bytes, get_u32(index)));
  mp_obj_t pair[] = {mp_obj_new_bytes(opening, (size_t)size), mp_obj_new_bytes(root, sizeof root)};
  return mp_obj_new_tuple(2, pair);
}
FUNCTION_OBJECT MP_DEFINE_CONST_FUN_OBJ_3(peelcore_coin_open_obj, peelcore_coin_open);

static mp_obj_t peelcore_coin_mask(mp_obj_t seed, mp_obj_t symbols, mp_obj_t answer) {
  return MP_OBJ_NEW_SMALL_INT(checked(peel_coin_mask(get_exactly(seed, 16), get_u32(symbols), get_u32(answer))));
}
FUNCTION_OBJECT MP_DEFINE_CONST_FUN_OBJ_3(peelcore_coin_mask_obj, peelcore_coin_mask);

/* ---- Module ----------------------------------------------------------------------------------------------------- */

#if MICROPY_ENABLE_DYNRUNTIME

#include "core.c"

ENTRY_POINT mp_obj_t mpy_init(mp_obj_fun_bc_t *self, size_t n_args, size_t n_kw, mp_obj_t *args) {
  (void)n_args, (void)n_kw, (void)args;
  MP_DYNRUNTIME_INIT_ENTRY
  mp_store_global(MP_QSTR_VERSION, mp_obj_new_str(PEEL_CORE_VERSION, sizeof PEEL_CORE_VERSION - 1));
  mp_store_global(MP_QSTR_encoder, MP_OBJ_FROM_PTR(&peelcore_encoder_obj));
  mp_store_global(MP_QSTR_drbg, MP_OBJ_FROM_PTR(&peelcore_drbg_obj));
  mp_store_global(MP_QSTR_drbg_seed, MP_OBJ_FROM_PTR(&peelcore_drbg_seed_obj));
  mp_store_global(MP_QSTR_drbg_bytes, MP_OBJ_FROM_PTR(&peelcore_drbg_bytes_obj));
  mp_store_global(MP_QSTR_encode, MP_OBJ_FROM_PTR(&peelcore_encode_obj));
  mp_store_global(MP_QSTR_perturb, MP_OBJ_FROM_PTR(&peelcore_perturb_obj));
  mp_store_global(MP_QSTR_seal, MP_OBJ_FROM_PTR(&peelcore_seal_obj));
  mp_store_global(MP_QSTR_stream, MP_OBJ_FROM_PTR(&peelcore_stream_obj));
  mp_store_global(MP_QSTR_hash, MP_OBJ_FROM_PTR(&peelcore_hash_obj));
  mp_store_global(MP_QSTR_frame_open, MP_OBJ_FROM_PTR(&peelcore_frame_open_obj));
  mp_store_global(MP_QSTR_codeword, MP_OBJ_FROM_PTR(&peelcore_codeword_obj));
  mp_store_global(MP_QSTR_coin_name, MP_OBJ_FROM_PTR(&peelcore_coin_name_obj));
  mp_store_global(MP_QSTR_coin_root, MP_OBJ_FROM_PTR(&peelcore_coin_root_obj));
  mp_store_global(MP_QSTR_coin_open, MP_OBJ_FROM_PTR(&peelcore_coin_open_obj));
  mp_store_global(MP_QSTR_coin_mask, MP_OBJ_FROM_PTR(&peelcore_coin_mask_obj));
  MP_DYNRUNTIME_INIT_EXIT
}

#else

static const MP_DEFINE_STR_OBJ(peelcore_version_obj, PEEL_CORE_VERSION);

static const mp_rom_map_elem_t peelcore_globals_table[] = {
    {MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR_peelcore)},
    {MP_ROM_QSTR(MP_QSTR_VERSION), MP_ROM_PTR(&peelcore_version_obj)},
    {MP_ROM_QSTR(MP_QSTR_encoder), MP_ROM_PTR(&peelcore_encoder_obj)},
    {MP_ROM_QSTR(MP_QSTR_drbg), MP_ROM_PTR(&peelcore_drbg_obj)},
    {MP_ROM_QSTR(MP_QSTR_drbg_seed), MP_ROM_PTR(&peelcore_drbg_seed_obj)},
    {MP_ROM_QSTR(MP_QSTR_drbg_bytes), MP_ROM_PTR(&peelcore_drbg_bytes_obj)},
    {MP_ROM_QSTR(MP_QSTR_encode), MP_ROM_PTR(&peelcore_encode_obj)},
    {MP_ROM_QSTR(MP_QSTR_perturb), MP_ROM_PTR(&peelcore_perturb_obj)},
    {MP_ROM_QSTR(MP_QSTR_seal), MP_ROM_PTR(&peelcore_seal_obj)},
    {MP_ROM_QSTR(MP_QSTR_stream), MP_ROM_PTR(&peelcore_stream_obj)},
    {MP_ROM_QSTR(MP_QSTR_hash), MP_ROM_PTR(&peelcore_hash_obj)},
    {MP_ROM_QSTR(MP_QSTR_frame_open), MP_ROM_PTR(&peelcore_frame_open_obj)},
    {MP_ROM_QSTR(MP_QSTR_codeword), MP_ROM_PTR(&peelcore_codeword_obj)},
    {MP_ROM_QSTR(MP_QSTR_coin_name), MP_ROM_PTR(&peelcore_coin_name_obj)},
    {MP_ROM_QSTR(MP_QSTR_coin_root), MP_ROM_PTR(&peelcore_coin_root_obj)},
    {MP_ROM_QSTR(MP_QSTR_coin_open), MP_ROM_PTR(&peelcore_coin_open_obj)},
    {MP_ROM_QSTR(MP_QSTR_coin_mask), MP_ROM_PTR(&peelcore_coin_mask_obj)},
};
static MP_DEFINE_CONST_DICT(peelcore_globals, peelcore_globals_table);

const mp_obj_module_t peelcore_user_cmodule = {
    .base = {&mp_type_module},
    .globals = (mp_obj_dict_t *)&peelcore_globals,
};
MP_REGISTER_MODULE(MP_QSTR_peelcore, peelcore_user_cmodule);

#endif
