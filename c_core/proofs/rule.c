/* SPDX-License-Identifier: MIT */
/* The rule of any epsilon for any k. */
#include "peel.h"
#include "unknown.h"

int main(void) {
  uint32_t rule;
  return peel_rule(&rule, ANY_U32(), ANY_U32());
}
