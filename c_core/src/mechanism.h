/* SPDX-License-Identifier: MIT */
/* What the rest of the core asks of a mechanism. */
#ifndef PEEL_MECHANISM_H
#define PEEL_MECHANISM_H

#include <stdint.h>

/* Does the core know it? */
int peel_mechanism_known(uint32_t mechanism);

/* Returns 0 or PEEL_E_MECHANISM, _WIDTH, _DOMAIN. */
int peel_mechanism_check(uint32_t mechanism, uint32_t k, uint32_t domain, uint32_t width);

/* Does the report's number assign what the report is about? */
int peel_mechanism_assigns(uint32_t mechanism);

#endif
