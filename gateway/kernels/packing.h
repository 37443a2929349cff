/* SPDX-License-Identifier: MIT */
/* Packs records that are mostly zeros, as the states of bets are: words of eight bytes, each as a byte that says which of its bytes are not
 * zero, and those bytes; a word of zeros as a zero and how many more of them follow, up to 255. What would not become smaller is taken as
 * it is, and is known again by its size. */
#ifndef PEEL_PACKING_H
#define PEEL_PACKING_H

#include <stddef.h>
#include <stdint.h>

/* Pack the records at some places of a table, each of so many bytes, a multiple of eight, one behind the other into out, which has room for
 * them as they are. ends tells where each ends. */
void peel_pack(uint8_t *out, uint64_t *ends, const uint8_t *records, const uint64_t *places, size_t count, size_t bytes);

/* Unpack count records into those places of a table. Returns how many were right: less than count where one is no record of so many bytes;
 * nothing is read or written beyond the ends. */
size_t peel_unpack(uint8_t *records, const uint64_t *places, const uint8_t *packed, const uint64_t *ends, size_t count, size_t bytes);

#endif
