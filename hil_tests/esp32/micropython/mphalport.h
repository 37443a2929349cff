/* SPDX-License-Identifier: MIT */
/* MicroPython wants this header; the program needs none of the clocks and pins that it could declare. */
