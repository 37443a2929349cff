# SPDX-License-Identifier: MIT
"""Measure what an insider can do who knows the profile, the keys, alpha and the state of the bets: ``peel bench promise``.

`peel_tools.planning` has the games: `arena` (what honest devices send and what harms), `insider` (play against the capital) and
`strategies` (attackers that expose themselves). Here `engine` plays against a whole gateway engine, `picking` chooses what a time bucket
holds, and `mixed` has insiders on a mixed profile. `wasting` has insiders who waste reports or suppress categories. `honest` counts
exposed honest devices, and `measure` puts the figures together.

Against verified coins, `verified` has the exact harm of the best plays, `verified_strategies` the strategies of insiders, and
`verified_insiders` replays them on the engine of `verified_fleet` with the devices of `verified_cheat`. `verified_engine` has honest
devices.
"""
