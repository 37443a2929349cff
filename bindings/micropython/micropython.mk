# SPDX-License-Identifier: MIT
# Peel as a user C module for ports built with make: USER_C_MODULES=<this repository>/bindings
PEEL_MICROPYTHON := $(USERMOD_DIR)

SRC_USERMOD_C += $(PEEL_MICROPYTHON)/peelcore.c
SRC_USERMOD_LIB_C += $(PEEL_MICROPYTHON)/core.c
CFLAGS_USERMOD += -I$(PEEL_MICROPYTHON)/../../c_core/include
