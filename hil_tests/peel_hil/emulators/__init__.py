# SPDX-License-Identifier: MIT
"""What emulated boards are made of: images, the Pico's emulator, programs for the ESP32's processor; built from source, cached."""
