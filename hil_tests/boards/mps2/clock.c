/* SPDX-License-Identifier: MIT */
/* Ticks for the mps2-an385, from the FPGA's free-running counters: no interrupt and no state.
 *
 * COUNTER counts at 25 MHz and wraps after 171 seconds; CLK100HZ wraps after 497 days. Both start at reset, so the slow one gives the
 * time to 10 ms and the fast one what has passed since.
 */
#include "py/mphal.h"
#include "py/runtime.h"

#define CLK100HZ (*(volatile uint32_t *)0x40028014)
#define COUNTER (*(volatile uint32_t *)0x40028018)
#define COUNTS_PER_US 25
#define COUNTS_PER_10_MS 250000u

static int32_t since(uint32_t hundredths) { return (int32_t)(COUNTER - hundredths * COUNTS_PER_10_MS); }

mp_uint_t mp_hal_ticks_us(void) {
  uint32_t hundredths = CLK100HZ;
  return hundredths * 10000 + (mp_uint_t)(since(hundredths) / COUNTS_PER_US);
}

mp_uint_t mp_hal_ticks_ms(void) {
  uint32_t hundredths = CLK100HZ;
  return hundredths * 10 + (mp_uint_t)(since(hundredths) / (1000 * COUNTS_PER_US));
}

mp_uint_t mp_hal_ticks_cpu(void) { return COUNTER; }

uint64_t mp_hal_time_ns(void) {
  uint32_t hundredths = CLK100HZ;
  return (uint64_t)hundredths * 10000000 + (uint64_t)since(hundredths) * (1000 / COUNTS_PER_US);
}

void mp_hal_delay_us(mp_uint_t us) {
  mp_uint_t start = mp_hal_ticks_us();
  while (mp_hal_ticks_us() - start < us) continue;
}

void mp_hal_delay_ms(mp_uint_t ms) {
  mp_uint_t start = mp_hal_ticks_ms();
  while (mp_hal_ticks_ms() - start < ms) mp_handle_pending(true);
}
