# SPDX-License-Identifier: MIT
"""The query cache: fast answers are exact, slow answers are reused for a while."""

from __future__ import annotations

import threading
import time

import pytest
from helpers import wait_until

from peel_gateway.queries.cache import QueryCache


class World:
    """Something that changes, and that takes `seconds` to look at."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.generation = 0
        self.looked = 0
        self.seconds = seconds
        self.cache: QueryCache[int] = QueryCache(lambda: self.generation, size=lambda _: 2, capacity=32)

    def look(self) -> int:
        self.looked += 1
        seen = self.generation
        time.sleep(self.seconds)
        return seen

    def ask(self, question: str = "") -> int:
        return self.cache.get(question, self.look)


def test_an_answer_is_entries_until_something_changes() -> None:
    world = World()
    assert [world.ask(), world.ask(), world.ask("other")] == [0, 0, 0]
    assert world.looked == 2
    world.generation = 1
    assert [world.ask(), world.ask()] == [1, 1]
    assert world.looked == 3


@pytest.mark.slow
def test_a_slow_answer_is_given_for_a_while_and_then_no_more() -> None:
    world = World(seconds=0.12)
    assert world.ask() == 0
    world.generation = 1
    assert world.ask() == 0
    wait_until(lambda: world.ask() == 1)
    assert world.looked == 2


def test_those_who_ask_at_once_look_once() -> None:
    world = World(seconds=0.05)
    askers = [threading.Thread(target=world.ask) for _ in range(8)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert world.looked == 1


def test_a_change_while_looking_is_not_missed() -> None:
    world = World()
    assert world.cache.get("", lambda: setattr(world, "generation", 5) or 0) == 0  # type: ignore[func-returns-value]
    assert world.ask() == 5


def test_old_answers_go() -> None:
    """Each takes 2 of 32."""
    world = World()
    for question in range(100):
        world.ask(str(question))
    assert len(world.cache._entries) == 16
    world.ask("99")
    assert world.looked == 100
