/* SPDX-License-Identifier: MIT */
/* System calls (../start.s, system.s) and the register windows (windows.s). */
#ifndef PEEL_ESP32_SYSTEM_H
#define PEEL_ESP32_SYSTEM_H

#include <stddef.h>

long system_open(const char *path, int flags, int mode);
long system_close(int file);
long system_read(int file, void *data, size_t len);
long system_write(int file, const void *data, size_t len);
long system_sigaction(int signal, const void *action, void *previous, size_t mask_bytes);
void system_exit(int status) __attribute__((noreturn));

/* Write the registers of all callers to the stack. */
void spill_windows(void);

#endif
