/* SPDX-License-Identifier: MIT */
/* QEMU's generic cores lack MULUH and MULSH, the upper halves of a product, which the ESP32 has and the native module uses. */
#ifndef PEEL_ESP32_MISSING_INSTRUCTIONS_H
#define PEEL_ESP32_MISSING_INSTRUCTIONS_H

/* From here on, do in software what the processor refuses as illegal; any other illegal instruction ends the program with 71. */
void emulate_missing_instructions(void);

#endif
