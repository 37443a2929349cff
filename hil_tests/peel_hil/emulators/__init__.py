# SPDX-License-Identifier: MIT
"""Parts of emulated boards, built from source and cached: images, the Pico's emulator, programs for the ESP32's processor."""
