/* SPDX-License-Identifier: MIT */
/* Questions about a mechanism from the rest of the core. */
#ifndef PEEL_MECHANISM_H
#define PEEL_MECHANISM_H

#include <stdint.h>

/* Whether the core knows the mechanism. */
int peel_mechanism_known(uint32_t mechanism);

/* Check k, width and domain. Returns 0 or PEEL_E_MECHANISM, _WIDTH, _DOMAIN. */
int peel_mechanism_check(uint32_t mechanism, uint32_t k, uint32_t domain, uint32_t width);

/* Whether the report's number assigns a value. */
int peel_mechanism_assigns(uint32_t mechanism);

#endif
