/* Peel core: private, sealed, screenable sensor reports in freestanding C99.
 *
 * SPDX-License-Identifier: MIT
 *
 * This header is the manual. spec/SPEC.md defines every bit; section numbers below refer to it.
 *
 * The core calls only memcpy and memset, allocates nothing, keeps no state and has no source of entropy: every buffer and all
 * randomness come from the caller. Keys and readings decide no branch, with one exception: the index key
 * decides which question a report answers, and that decides an address and, in a profile of several blocks, a duration. Two durations
 * depend on random input only: how often a coin draws again for a uniform number, and how soon the health check finds a fault in
 * entropy that is then refused.
 *
 * Functions that can fail return 0 or a size, or a negative PEEL_E_... code. After a failure their outputs are untouched, except where
 * noted. Functions that cannot fail return void or a value. Outputs come first.
 */
#ifndef PEEL_H
#define PEEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PEEL_CORE_VERSION "0.1.0"
#define PEEL_WIRE_VERSION 1

#define PEEL_MAX_WIDTH 1024
#define PEEL_MAX_DOMAIN 65535     /* categories that are hashed */
#define PEEL_MAX_HASH_SYMBOLS 127 /* symbols that they are hashed into */
#define PEEL_MAX_BLOCKS 32
#define PEEL_MAX_WEIGHT 16
#define PEEL_KEY_BYTES 16
#define PEEL_HEADER_BYTES 16
#define PEEL_PROFILE_AT 2 /* offsets in the header, after version and flags at 0 and a zero at 1 */
#define PEEL_DEVICE_AT 6
#define PEEL_NUMBER_AT 10
#define PEEL_RULE_BYTES 4 /* the odds in a frame: keep, change, and two zeros */
#define PEEL_TAG_BYTES 8
#define PEEL_READING_ONE 32768            /* readings are Q15, from -PEEL_READING_ONE to PEEL_READING_ONE */
#define PEEL_NO_READING (-2147483647 - 1) /* in place of a reading: the sensor gave none */
#define PEEL_NUMBER_MAX 0xffffffffffffULL /* report numbers are 48 bits, from 1 */
#define PEEL_ENTROPY_MIN_BYTES 32

/* Sizes of n - 1 packed trits and of a whole frame, for a profile of width n. */
#define PEEL_TRIT_BYTES(width) (((width) + 3) / 5)
#define PEEL_FRAME_BYTES(width) (PEEL_HEADER_BYTES + PEEL_RULE_BYTES + PEEL_TRIT_BYTES(width) + PEEL_TAG_BYTES)
#define PEEL_MAX_TRIT_BYTES PEEL_TRIT_BYTES(PEEL_MAX_WIDTH)
#define PEEL_MAX_FRAME_BYTES PEEL_FRAME_BYTES(PEEL_MAX_WIDTH)

/* Size of a receipt with this many runs. */
#define PEEL_MAX_RECEIPT_RUNS 16
#define PEEL_RECEIPT_BYTES(runs) (11 + 12 * (runs) + PEEL_TAG_BYTES)
#define PEEL_MAX_RECEIPT_BYTES PEEL_RECEIPT_BYTES(PEEL_MAX_RECEIPT_RUNS)

enum peel_error {
  PEEL_OK = 0,
  PEEL_E_LENGTH = -1,   /* a buffer is too short or too long */
  PEEL_E_VERSION = -2,  /* not a version 1 frame */
  PEEL_E_FLAGS = -3,    /* reserved bits are set */
  PEEL_E_BLOCK = -4,    /* a block of unknown form, or its weight or questions out of range; no block, or more than PEEL_MAX_BLOCKS */
  PEEL_E_PROFILE = -5,  /* unknown profile, or not this device's */
  PEEL_E_DEVICE = -6,   /* unknown device, or device 0 */
  PEEL_E_NUMBER = -7,   /* report number 0 or above 48 bits */
  PEEL_E_UNSEALED = -8, /* an unsealed frame where a sealed one is required, or the reverse */
  PEEL_E_SEAL = -9,     /* the tag is wrong: forged, altered, or made with another key */
  PEEL_E_TRITS = -10,   /* invalid trits: no encoder produces them */
  PEEL_E_WIDTH = -11,   /* symbols or width out of range: the columns of all blocks fit in width <= PEEL_MAX_WIDTH */
  PEEL_E_READING = -12, /* a category out of range, not one reading per question, or no column for a missing reading */
  PEEL_E_ENTROPY = -13, /* entropy refused by the health check, or a generator that is unseeded or damaged */
  PEEL_E_ODDS = -14,    /* odds other than 1 <= change < keep */
  PEEL_E_DOMAIN = -15,  /* hashing fewer than 2 categories; a domain for another form */
  PEEL_E_ORDER = -16,   /* calls in the wrong order: absorb after squeeze */
  PEEL_E_COIN = -17,    /* odds or symbols that no verified coin has, or an index beyond its table */
  PEEL_E_OUTCOME = -18, /* an opening reveals an outcome that the coin does not have */
  PEEL_E_ROOT = -19     /* an opening does not lead to the root */
};

enum peel_form { PEEL_SIGN = 1, PEEL_CHOICE = 2, PEEL_HASHED = 3 };

enum peel_flag { PEEL_FLAG_UNSEALED = 1 };

/* ---- Ascon (section 2) ------------------------------------------------------------------------------------------ */

/* Encrypt text_len bytes under key and nonce and write the full 16-byte tag. out may equal text. */
void peel_ascon_seal(uint8_t *out, uint8_t tag[16], const uint8_t key[16], const uint8_t nonce[16], const uint8_t *ad, size_t ad_len,
                     const uint8_t *text, size_t text_len);

/* Decrypt and compare the first tag_len bytes (8 to 16) of the tag in constant time. out may equal text.
 * Returns 0, PEEL_E_SEAL (out is wiped) or PEEL_E_LENGTH (tag_len out of range). */
int peel_ascon_open(uint8_t *out, const uint8_t key[16], const uint8_t nonce[16], const uint8_t *ad, size_t ad_len, const uint8_t *text,
                    size_t text_len, const uint8_t *tag, size_t tag_len);

/* Write the first out_len bytes of the keystream (section 2, STREAM). */
void peel_ascon_stream(uint8_t *out, size_t out_len, const uint8_t key[16], const uint8_t nonce[16]);

/* Ascon-XOF128: init, absorb any number of times, squeeze once or more. Like every state here, it is not thread-safe. */
typedef struct {
  uint64_t s[5];
  uint8_t fill;      /* bytes absorbed into, or squeezed from, the current block of 8; below 8 */
  uint8_t squeezing; /* 0 while absorbing */
} peel_xof;

void peel_xof_init(peel_xof *xof);
/* Returns 0, or PEEL_E_ORDER after the first squeeze. */
int peel_xof_absorb(peel_xof *xof, const uint8_t *data, size_t len);
void peel_xof_squeeze(peel_xof *xof, uint8_t *out, size_t len);

/* Init and absorb the label with its length (section 2, HASH); label is a C string shorter than 256. */
void peel_hash_init(peel_xof *xof, const char *label);

/* Overwrite len bytes in a way that the compiler must keep. */
void peel_wipe(void *data, size_t len);

/* ---- Random generator (section 4) ------------------------------------------------------------------------------- */

/* Zero-initialise, then seed. Do not copy a live generator: the copy repeats its output. A generator belongs to one thread, or needs a
 * lock: two threads that draw at once get the same words, and so two reports the same coin. Even then the memory around it stays
 * intact. */
typedef struct {
  uint8_t key[16];
  uint8_t block[16];
  uint8_t last[8];
  uint8_t left; /* bytes of block not yet handed out */
  uint8_t seeded;
} peel_drbg;

/* Mix entropy into the generator. Returns 0, or PEEL_E_ENTROPY if the health check refuses the input; the generator is then unchanged. */
int peel_drbg_seed(peel_drbg *drbg, const uint8_t *entropy, size_t len);

/* Write len bytes, drawn as whole words. Returns 0, or PEEL_E_ENTROPY before the first successful seed and for a corrupt state. */
int peel_drbg_bytes(peel_drbg *drbg, uint8_t *out, size_t len);

/* ---- Questions (sections 5 to 7) -------------------------------------------------------------------------------- */

/* A run of questions with one form, weight and odds. A profile is a list of blocks, and their columns lie side by side:
 *   PEEL_SIGN    questions with symbols = 1 column each; a reading is Q15 (clamped); takes two random words or more
 *   PEEL_CHOICE  one question with symbols >= 2 columns; a reading is a category below symbols; takes one random word or more
 *   PEEL_HASHED  one question with symbols >= 2 columns; a reading is a category below domain; takes one random word or more
 * weight is 1 to PEEL_MAX_WEIGHT: how often each question is asked, compared with one of weight 1. domain is 0 without hashing.
 *
 * keep and change, 1 <= change < keep, are the odds of the coin. It has g outcomes: 2 for a sign, symbols otherwise. Of
 * K = keep + (g - 1) change equally likely draws, keep keep the answer, and change turn it into each other answer. So one report is
 * ln(keep / change)-locally differentially private. The core takes the odds as given: provisioning computes them from epsilon. */
typedef struct {
  uint8_t form;
  uint8_t weight;
  uint16_t questions;
  uint16_t symbols;
  uint16_t domain;
  uint8_t keep;
  uint8_t change;
} peel_block;

typedef struct {
  uint32_t index; /* a column: below the columns of all blocks, or equal to them for no reading */
  uint32_t minus; /* 0 for +1, 1 for -1 */
} peel_symbol;

/* Check blocks for a width. Returns 0 or PEEL_E_BLOCK, _WIDTH, _DOMAIN, _ODDS: the first fault in the order of section 9. */
int peel_blocks_check(const peel_block *blocks, size_t block_count, uint32_t width);

/* Compute the two words that assign a question, and its hash, to the report with this header. */
void peel_index_words(uint32_t words[2], const uint8_t index_key[16], const uint8_t header[16]);

/* Return the unit that these words assign: questions are numbered across all blocks, and each hash of a hashed question counts as one.
 * The blocks must have passed peel_blocks_check. */
uint32_t peel_unit(const peel_block *blocks, size_t block_count, const uint32_t words[2]);

/* Randomise the reading of the assigned question into a symbol. There is one reading per question; only the assigned one is checked. It
 * may be PEEL_NO_READING, if the width exceeds the columns of all blocks.
 * Returns 0 or PEEL_E_BLOCK, _WIDTH, _DOMAIN, _ODDS, _READING, _ENTROPY. */
int peel_perturb(peel_symbol *symbol, const peel_block *blocks, size_t block_count, uint32_t width, const uint32_t words[2],
                 const int32_t *readings, size_t count, peel_drbg *drbg);

/* ---- Projection (section 8) ------------------------------------------------------------------------------------- */

/* Fill the optional row cache: width - 1 words, the same for every device of a profile.
 * Returns 0 or PEEL_E_WIDTH. */
int peel_projection_rows(uint32_t *rows, uint32_t seed, uint32_t width);

/* Write the packed codeword of symbol: PEEL_TRIT_BYTES(width) bytes. rows is a filled cache or NULL.
 * Returns the number of bytes, or PEEL_E_WIDTH. */
int peel_projection_encode(uint8_t *trits, uint32_t seed, uint32_t width, const uint32_t *rows, peel_symbol symbol);

/* Check that trits are packed as an encoder packs them. Returns 0, PEEL_E_WIDTH or PEEL_E_TRITS. */
int peel_projection_check(uint32_t width, const uint8_t *trits);

/* Unpack width - 1 trits as -1, 0, +1. Returns 0, PEEL_E_WIDTH or PEEL_E_TRITS. */
int peel_projection_unpack(int8_t *out, uint32_t width, const uint8_t *trits);

/* ---- Frame (section 9) ------------------------------------------------------------------------------------------ */

/* The rule of a frame is the four bytes that state the odds of its coin, as an integer: keep | change << 8. The upper 16 bits are
 * reserved and 0. The functions below carry any rule; a reader that knows the profile compares it with its own. */
#define PEEL_RULE(keep, change) ((uint32_t)(keep) | (uint32_t)(change) << 8)

typedef struct {
  uint8_t flags;
  uint32_t profile;
  uint32_t device;
  uint64_t number;
} peel_header;

/* Write 16 header bytes. Returns 0 or PEEL_E_FLAGS, _DEVICE, _NUMBER. */
int peel_header_write(uint8_t out[16], const peel_header *header);

/* Read a header from the front of len bytes. Returns 0 or PEEL_E_LENGTH, _VERSION, _FLAGS; other fields are not checked. */
int peel_header_read(peel_header *header, const uint8_t *data, size_t len);

/* Return the frame size for a width and flags, or PEEL_E_WIDTH. */
int peel_frame_bytes(uint32_t width, uint8_t flags);

/* Build a frame from its parts and seal it (unless the header says unsealed; seal_key is then not read).
 * Returns its size or a negative code; PEEL_E_LENGTH if capacity is too small. */
int peel_frame_seal(uint8_t *out, size_t capacity, const uint8_t seal_key[16], const peel_header *header, uint32_t rule, uint32_t width,
                    const uint8_t *trits);

/* Open exactly one sealed frame of exactly len bytes: verify, decrypt, and return its rule and packed trits (checked).
 * Returns 0 or PEEL_E_LENGTH, _VERSION, _FLAGS, _WIDTH, _UNSEALED, _SEAL, _TRITS. */
int peel_frame_open(uint32_t *rule, uint8_t *trits, const uint8_t seal_key[16], uint32_t width, const uint8_t *frame, size_t len);

/* Open one unsealed frame, which anyone can have made. Returns PEEL_E_UNSEALED for a sealed one. */
int peel_frame_open_unsealed(uint32_t *rule, uint8_t *trits, uint32_t width, const uint8_t *frame, size_t len);

/* ---- Report: readings in, sealed frame out ---------------------------------------------------------------------- */

/* A device: its profile's parameters, its identity and its keys. Fill it in, then call peel_encoder_check. */
typedef struct {
  uint8_t flags;
  uint8_t block_count;
  uint32_t profile;
  uint32_t device;
  uint32_t width;
  uint32_t seed;
  const peel_block *blocks;
  const uint32_t *rows;     /* row cache, or NULL */
  const uint8_t *coin_seed; /* 16 bytes of the number's verified coin, or NULL: the generator tosses the coin */
  uint8_t seal_key[16];
  uint8_t index_key[16];
} peel_encoder;

/* Check an encoder. Returns 0, or the code of the first fault in the order of section 9: flags, device, blocks. */
int peel_encoder_check(const peel_encoder *encoder);

/* Randomise, project, pack and seal one report. number must never be used twice with these keys. With a coin_seed the answer is masked
 * instead of randomised (section 13): the seed must be that of number.
 * Returns the frame's size or a negative code. On error, out contains nothing of the readings. */
int peel_encode(uint8_t *out, size_t capacity, const peel_encoder *encoder, uint64_t number, const int32_t *readings, size_t count,
                peel_drbg *drbg);

/* ---- Receipt (section 11) --------------------------------------------------------------------------------------- */

/* A run of settled report numbers, from first to last. */
typedef struct {
  uint64_t first;
  uint64_t last;
} peel_run;

/* Write a gateway's receipt: every number up to upto is settled, and those of the runs above it, ascending and not adjacent.
 * Returns its size, or PEEL_E_LENGTH (capacity, or too many runs), _DEVICE, _NUMBER. */
int peel_receipt_write(uint8_t *out, size_t capacity, const uint8_t receipt_key[16], uint32_t device, uint64_t upto, const peel_run *runs,
                       size_t count);

/* Read a receipt of len bytes for this device. Compares the tag in constant time.
 * Returns the number of runs, or PEEL_E_LENGTH, _VERSION, _DEVICE, _SEAL. */
int peel_receipt_read(uint64_t *upto, peel_run runs[PEEL_MAX_RECEIPT_RUNS], const uint8_t receipt_key[16], uint32_t device,
                      const uint8_t *receipt, size_t len);

/* ---- Verified coins (section 13) -------------------------------------------------------------------------------- */

/* A number has a table of K = keep + (symbols - 1) * change outcomes, made from a secret seed. A device commits to the table's root,
 * reports its masked answer, and opens the one outcome that the gateway picks. The name says which coin it is: profile, device,
 * number, keep, change and symbols. All functions that take a name refuse a coin that no verified profile has (PEEL_E_COIN).
 * Seeds, outcomes and answers decide no branch and no address. How often mask and shift are drawn again depends on random words only. */
#define PEEL_MAX_TABLE 64
#define PEEL_COIN_NAME_BYTES 20
#define PEEL_COIN_HASH_BYTES 16    /* roots and nodes */
#define PEEL_MAX_OPENING_BYTES 158 /* 14 and 3 siblings on each of 3 levels */
#define PEEL_BATCH_NUMBERS 32      /* in one commitment */
#define PEEL_MAX_CHALLENGE_RUNS 64

/* Write the name of a coin. The header's flags are not part of it. Returns 0 or PEEL_E_FLAGS, _DEVICE, _NUMBER, _COIN. */
int peel_coin_name(uint8_t name[20], const peel_header *header, uint32_t keep, uint32_t change, uint32_t symbols);

/* Write the name of a number's coin: that of the question which the number assigns. Returns 0 or a code of peel_encoder_check,
 * PEEL_E_NUMBER, _COIN. */
int peel_encoder_coin(uint8_t name[20], const peel_encoder *encoder, uint64_t number);

/* Compute the seed of a number from the secret of its batch. */
void peel_coin_seed(uint8_t seed[16], const uint8_t secret[16], uint64_t number);

/* Mask an answer below symbols. Returns the masked answer, or PEEL_E_COIN (symbols out of range), _READING (answer out of range). */
int peel_coin_mask(const uint8_t seed[16], uint32_t symbols, uint32_t answer);

/* Compute the root of a table. Returns 0 or PEEL_E_COIN. */
int peel_coin_root(uint8_t root[16], const uint8_t name[20], const uint8_t seed[16]);

/* Return the size of the opening of an outcome, for a table of this size; it is largest for index 0. PEEL_E_COIN: no such outcome. */
int peel_coin_opening_bytes(uint32_t size, uint32_t index);

/* Open one outcome, and compute the root, so that the caller can compare it with the committed one before sending.
 * Returns the opening's size, or PEEL_E_COIN, _LENGTH (capacity). */
int peel_coin_open(uint8_t *out, size_t capacity, uint8_t root[16], const uint8_t name[20], const uint8_t seed[16], uint32_t index);

/* Verify an opening of exactly len bytes against a root. Returns the outcome, or PEEL_E_COIN, _LENGTH, _OUTCOME, _ROOT. */
int peel_coin_verify(const uint8_t root[16], const uint8_t name[20], uint32_t index, const uint8_t *opening, size_t len);

/* Return the index that a challenge picks from a number's table of this size. */
uint32_t peel_coin_index(const uint8_t challenge_seed[16], uint64_t number, uint32_t size);

/* Frames of other types than a report, sealed with the bundle's coin key. A body has at most PEEL_MAX_MESSAGE_BODY_BYTES. */
enum peel_message_type { PEEL_COMMITMENT = 1, PEEL_AUDIT_ANSWER = 2, PEEL_OPENING = 3 };

#define PEEL_MAX_MESSAGE_BODY_BYTES 512
#define PEEL_MESSAGE_BYTES(body) (PEEL_HEADER_BYTES + (body) + PEEL_TAG_BYTES)

/* Build and seal a message; number in the header is the report's for an opening, otherwise the first of its batch.
 * Returns its size, or PEEL_E_FLAGS (type, or a flag), _LENGTH, _DEVICE, _NUMBER. */
int peel_message_seal(uint8_t *out, size_t capacity, const uint8_t coin_key[16], uint8_t type, const peel_header *header,
                      const uint8_t *body, size_t len);

/* Read the header of a message from the front of len bytes.
 * Returns its type, or PEEL_E_LENGTH, _VERSION, _FLAGS (a flag, or no such type); other fields are not checked. */
int peel_message_read(peel_header *header, const uint8_t *data, size_t len);

/* Open exactly one message of exactly len bytes, whose body has size bytes. After PEEL_E_SEAL the body is wiped.
 * Returns its type, or PEEL_E_LENGTH, _VERSION, _FLAGS, _DEVICE, _NUMBER, _SEAL. */
int peel_message_open(uint8_t *body, size_t size, const uint8_t coin_key[16], const uint8_t *frame, size_t len);

/* The fields that a receipt has besides those of section 11, for a device with a verified profile. */
typedef struct {
  uint8_t era[8];
  uint64_t approved;
  uint64_t audit_first; /* 0: no audit */
  uint32_t audit;
  uint32_t opened;
  uint32_t challenge_runs; /* 0: no challenge */
  uint8_t challenge_seed[16];
} peel_coin_fields;

/* Size of a receipt with this many settled runs, and runs of a challenge. */
#define PEEL_COIN_RECEIPT_BYTES(runs, asked) (41 + 12 * (runs) + ((asked) ? 22 + 4 * (asked) : 0) + PEEL_TAG_BYTES)
#define PEEL_MAX_COIN_RECEIPT_BYTES PEEL_COIN_RECEIPT_BYTES(PEEL_MAX_RECEIPT_RUNS, PEEL_MAX_CHALLENGE_RUNS)

/* Write a receipt with coin fields. challenge has fields->challenge_runs runs, ascending and not adjacent; a run and the distance
 * between two runs are at most 65535. Returns its size, or PEEL_E_LENGTH, _DEVICE, _NUMBER. */
int peel_coin_receipt_write(uint8_t *out, size_t capacity, const uint8_t receipt_key[16], uint32_t device, uint64_t upto,
                            const peel_run *runs, size_t count, const peel_coin_fields *fields, const peel_run *challenge);

/* Read a receipt with coin fields. A run of length 0, which no gateway writes, ends before it begins.
 * Returns the number of settled runs, or PEEL_E_LENGTH, _VERSION, _DEVICE, _SEAL. */
int peel_coin_receipt_read(uint64_t *upto, peel_run runs[PEEL_MAX_RECEIPT_RUNS], peel_coin_fields *fields,
                           peel_run challenge[PEEL_MAX_CHALLENGE_RUNS], const uint8_t receipt_key[16], uint32_t device,
                           const uint8_t *receipt, size_t len);

#ifdef __cplusplus
}
#endif

#endif
