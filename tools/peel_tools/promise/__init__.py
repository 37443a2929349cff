# SPDX-License-Identifier: MIT
"""What an insider can do who knows everything: profile, keys, alpha, and the state of the bets on himself. ``peel bench promise``.

`arena` says for each mechanism what honest devices say, what insiders want, and how much that harms in units of a liar's harm; `insider`
plays against the wealth alone; `strategies` are those that expose themselves; `picking` chooses what a time bucket holds; `honest` counts
how many honest devices are exposed; `measure` puts the figures together.
"""
