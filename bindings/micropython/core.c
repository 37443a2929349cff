/* SPDX-License-Identifier: MIT */
/* The whole core as one translation unit. MicroPython's build systems look for sources below their own folders, and a native module
 * for the ESP32 can have only one.
 *
 * MicroPython builds for size. The permutation and the projection take most of a report's time, so these two are built for speed.
 */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O2")
#endif
#include "../../c_core/src/ascon.c"
#include "../../c_core/src/projection.c"
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
#include "../../c_core/src/coin.c"
#include "../../c_core/src/drbg.c"
#include "../../c_core/src/encode.c"
#include "../../c_core/src/frame.c"
#include "../../c_core/src/question.c"
#include "../../c_core/src/receipt.c"
