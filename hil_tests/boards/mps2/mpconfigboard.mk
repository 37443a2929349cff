# SPDX-License-Identifier: MIT
# MicroPython's own MPS2_AN385 board, with a clock and LittleFS: what the firmware needs to run as it does on a real board.
include boards/MPS2_AN385/mpconfigboard.mk

LDSCRIPT = $(BOARD_DIR)/mps2.ld
MICROPY_HEAP_SIZE = 196608
MICROPY_VFS_LFS2 = 1
CFLAGS += -DMICROPY_VFS_LFS2=1 -DMP_CONFIGFILE='"$(BOARD_DIR)/mpconfigboard.h"'
SRC_C += clock.c
vpath %.c $(BOARD_DIR)
