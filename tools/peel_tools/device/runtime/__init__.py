# SPDX-License-Identifier: MIT
"""What is started in a device's flash, by either interpreter."""
