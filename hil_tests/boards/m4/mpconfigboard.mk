# SPDX-License-Identifier: MIT
# The mps2 with a Cortex-M4F (FPGA image AN386): the architecture of the Pico 2's modules, hardware floating point in the calls.
QEMU_ARCH = arm
QEMU_MACHINE = mps2-an386

CFLAGS += -mthumb -mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard
CFLAGS += -DQEMU_SOC_MPS2 -DMICROPY_HW_MCU_NAME='"Cortex-M4F"'
LDSCRIPT = $(BOARD_DIR)/../mps2/mps2.ld
LDFLAGS += -Wl,--wrap=uart_init
SRC_BOARD_O = shared/runtime/gchelper_native.o shared/runtime/gchelper_thumb2.o
MPY_CROSS_FLAGS += -march=armv7emsp

SRC_C += fpu.c
vpath %.c $(BOARD_DIR)
