/* SPDX-License-Identifier: MIT */
/* The QEMU port does not switch the floating-point unit on. uart_init is the first function it calls that can be wrapped. */
#include <stdint.h>

#define CPACR (*(volatile uint32_t *)0xe000ed88)
#define FULL_ACCESS (0xfu << 20)

void __real_uart_init(void);
void __wrap_uart_init(void);

void __wrap_uart_init(void) {
  CPACR |= FULL_ACCESS;
  __real_uart_init();
}
