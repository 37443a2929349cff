# SPDX-License-Identifier: MIT
"""Cases for section 10: profiles, and profiles that are refused."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import reference as ref
from cases.tools import Case, Vectors, block_fields, outcome

# ---- 10. The profile ------------------------------------------------------------------------------------------------

OWN_FIELDS = {
    ref.MEAN: ("unit", "low", "high"),
    ref.ABOVE: ("unit", "thresholds"),
    ref.LADDER: ("unit", "low", "high", "thresholds"),
    ref.CATEGORY: ("categories", "domain"),
    ref.HASHED_KIND: ("categories", "domain"),
}


def attribute_fields(a: ref.Attribute) -> Case:
    """Return the fields of the attribute's kind. Millionths are decimal strings, as they can exceed 2^53."""
    own: Case = {name: getattr(a, name) for name in OWN_FIELDS.get(a.kind, ())}
    own |= {name: str(own[name]) for name in ("low", "high") if name in own}
    own |= {name: [str(value) for value in own[name]] for name in ("thresholds",) if name in own}
    absent = [name for name in ("categories", "domain") if name in own and not own[name]]
    return {"name": a.name, "kind": a.kind, "weight": a.weight} | {k: v for k, v in own.items() if k not in absent}


def profile_fields(p: ref.Profile) -> Case:
    fields: Case = {**vars(p), "attributes": [attribute_fields(a) for a in p.attributes]}
    absent = {key for key in ("lifetime", "offline") if fields[key] is None}
    absent |= {"bucket"} if p.offline is None else set()
    return {key: value for key, value in fields.items() if key not in absent}


def mean(name: str, unit: str, low: int, high: int, weight: int = 1) -> ref.Attribute:
    return ref.Attribute(name, ref.MEAN, weight, unit, low, high)


def above(name: str, unit: str, *thresholds: int, weight: int = 1) -> ref.Attribute:
    return ref.Attribute(name, ref.ABOVE, weight, unit, thresholds=thresholds)


def ladder(name: str, unit: str, low: int, high: int, *thresholds: int, weight: int = 1) -> ref.Attribute:
    return ref.Attribute(name, ref.LADDER, weight, unit, low, high, thresholds)


def category(name: str, *categories: str, weight: int = 1) -> ref.Attribute:
    return ref.Attribute(name, ref.CATEGORY, weight, categories=categories)


def hashed(name: str, domain: int, *categories: str, weight: int = 1) -> ref.Attribute:
    return ref.Attribute(name, ref.HASHED_KIND, weight, categories=categories, domain=domain)


CLIMATE = ref.Profile(
    name="climate",
    epsilon=2**20,
    width=48,
    seed=12345,
    quota=96,
    period=86400,
    attributes=[
        mean("temperature", "°C", -40_000_000, 85_000_000),
        mean("humidity", "%", 0, 100_000_000),
        mean("pressure", "hPa", 300_000_000, 1_100_000_000),
        mean("count", "", 0, 1),
    ],
)
STATES = ("idle", "running", "Störung", "停止", "=", " 🔧 a b")
STATE = replace(CLIMATE, name="state", epsilon=3 * 2**19, seed=0, attributes=[category("machine", *STATES)])
VISITS = replace(CLIMATE, name="visits", attributes=[hashed("place", 65535)])
RUNGS = tuple(10**6 * rung for rung in (600, 800, 1000, 1200, 1400, 1600, 1800))
ROOM = replace(
    CLIMATE,
    name="room",
    attributes=[
        mean("temperature", "°C", -10_000_000, 50_000_000, weight=2),
        above("temperature", "°C", 26_000_000, 30_500_000, weight=2),
        ladder("co2", "ppm", 400_000_000, 2_000_000_000, *RUNGS),
        category("door", "open", "shut", "ajar", weight=16),
        hashed("error", 5000, weight=3),
        mean("humidity", "%", 0, 100_000_000),
    ],
)


def profile() -> Vectors:
    comment = (
        "Section 10: fields, canonical form (in UTF-8), id, and the blocks of questions. `low`, `high` and `thresholds` are in "
        "millionths, as decimal strings."
    )
    edge = replace(
        CLIMATE,
        name="z" + "_" * 31,
        epsilon=4195,
        width=1024,
        seed=2**32 - 1,
        quota=10**6,
        period=10**8,
        attributes=[mean("a", "µ" * 16, -(10**18), 10**18), mean("b9_", "x" * 32, -1, 0)],
    )
    wide = replace(
        CLIMATE,
        name="many",
        epsilon=5 * 2**20,
        width=64,
        attributes=[mean(f"a{i}", "mm/s", -i - 1, i) for i in range(40)],
    )
    narrow = replace(STATE, attributes=[category("machine", "é" * 16, "e\u0301", "é")])
    named = replace(STATE, epsilon=2**20, attributes=[hashed("machine", 0, *STATES)])
    profiles = [CLIMATE, replace(CLIMATE, attributes=CLIMATE.attributes[::-1]), STATE, edge, wide, narrow]
    profiles += [replace(CLIMATE, name="thermometer", attributes=CLIMATE.attributes[:1])]
    profiles += [replace(CLIMATE, lifetime=35040), replace(STATE, lifetime=2**48 - 1)]
    profiles += [
        VISITS,
        replace(VISITS, attributes=[hashed("place", 2)]),
        replace(VISITS, epsilon=5 * 2**20, width=127),
    ]
    profiles += [named, ROOM, replace(ROOM, attributes=ROOM.attributes[::-1])]
    profiles += [replace(ROOM, attributes=[above("t", "", -(10**18), 10**18), above("u", "", 0)])]
    profiles += [replace(CLIMATE, offline=10800), replace(ROOM, lifetime=9, offline=1, bucket=1)]
    profiles += [replace(STATE, offline=10**8, bucket=86400)]
    return comment, [
        {
            **profile_fields(p),
            "canonical": ref.canonical(p).decode(),
            "id": ref.profile_id(p),
            "blocks": block_fields(ref.profile_blocks(p)),
        }
        for p in profiles
    ]


def bad_profiles() -> Iterator[tuple[str, str, ref.Profile]]:
    """Yield file name, note and profile. Each profile breaks one rule of section 10."""
    first, *others = CLIMATE.attributes
    for name in ("", "Climate", "9a", "_a", "a-b", "a" * 33, "a\n"):
        yield "name", f"profile name {name!r}", replace(CLIMATE, name=name)
    for epsilon in (0, 1, 6 * 2**20, 6 * 2**20 + 1):
        yield "epsilon", f"epsilon {epsilon}", replace(CLIMATE, epsilon=epsilon)
    for width in (3, 1025, 0):
        yield "width", f"width {width} for 4 attributes", replace(CLIMATE, width=width)
    yield "width", "width 48 for 127 symbols", replace(VISITS, epsilon=5 * 2**20)
    yield "width", "width 16 for 17 columns", replace(ROOM, width=16)
    for domain in (1, 65536):
        yield "domain", f"a domain of {domain}", replace(VISITS, attributes=[hashed("place", domain)])
    yield "domain", "neither a domain nor categories", replace(VISITS, attributes=[hashed("place", 0)])
    yield "domain", "a domain and categories", replace(VISITS, attributes=[hashed("place", 9, "idle", "running")])
    yield "seed", "seed 2^32", replace(CLIMATE, seed=2**32)
    for quota in (0, 10**6 + 1):
        yield "quota", f"quota {quota}", replace(CLIMATE, quota=quota)
    for period in (0, 10**8 + 1):
        yield "period", f"period {period}", replace(CLIMATE, period=period)
    for lifetime in (0, 2**48):
        yield "lifetime", f"lifetime {lifetime}", replace(CLIMATE, lifetime=lifetime)
    for offline in (0, 10**8 + 1):
        yield "offline", f"offline for {offline} seconds", replace(CLIMATE, offline=offline)
    for bucket in (0, 86401):
        yield "bucket", f"buckets of {bucket} seconds", replace(CLIMATE, offline=1, bucket=bucket)
    yield "epsilon", "no table of at most 64 outcomes", replace(CLIMATE, epsilon=5 * 2**20, offline=1)
    yield (
        "verify",
        "a cap above 10",
        replace(STATE, epsilon=734003, attributes=[category("machine", *"abcdefghijklmnop")], offline=1),
    )
    yield "attribute", "no attribute", replace(CLIMATE, attributes=[])
    yield "attribute", "two of the same name and kind", replace(CLIMATE, attributes=[first, *others, first])
    yield "attribute", "a name in capitals", replace(CLIMATE, attributes=[replace(first, name="CO2"), *others])
    both = [first, category("temperature", "warm", "cold")]
    yield "attribute", "a number and a category of one name", replace(CLIMATE, attributes=both)
    many = [replace(first, name=f"a{i}", weight=1 + i % 2) for i in range(33)]
    yield "attribute", "33 blocks", replace(CLIMATE, attributes=many)
    yield "kind", "an unknown kind", replace(CLIMATE, attributes=[replace(first, kind="median"), *others])
    for weight in (0, 17):
        yield "weight", f"weight {weight}", replace(CLIMATE, attributes=[replace(first, weight=weight), *others])
    for unit in ("a|b", "a\nb", "\x7f", "\x85", "µ" * 16 + "x"):
        yield "unit", f"unit {unit!r}", replace(CLIMATE, attributes=[replace(first, unit=unit), *others])
    yield "unit", "two units of one reading", replace(CLIMATE, attributes=[first, above("temperature", "K", 5_000_000)])
    for low, high in ((0, 0), (1, 0), (-(10**18) - 1, 0), (0, 10**18 + 1)):
        yield "range", f"from {low} to {high}", replace(CLIMATE, attributes=[mean("a", "", low, high), *others])
    for thresholds in ((), (5, 5), (6, 5), (10**18 + 1,)):
        yield "thresholds", f"thresholds {thresholds}", replace(CLIMATE, attributes=[above("a", "", *thresholds)])
    for rungs in ((5,), (0, 5), (5, 10), tuple(range(1, 66))):
        end = 10 if len(rungs) < 65 else 100
        yield (
            "thresholds",
            f"{len(rungs)} rungs from {rungs[0]}",
            replace(CLIMATE, width=100, attributes=[ladder("a", "", 0, end, *rungs)]),
        )
    for threshold in (-40_000_000, 85_000_000):
        outside = [first, above("temperature", "°C", threshold)]
        yield "thresholds", f"{threshold} at an end of the range", replace(CLIMATE, attributes=outside)
    twice = [ladder("a", "", 0, 9, 3, 6), above("a", "", 5, 6)]
    yield "thresholds", "a threshold that is also a rung", replace(CLIMATE, attributes=twice)
    yield "category", "one category only", replace(STATE, attributes=[category("machine", "idle")])
    for name in ("", "a|b", "a\tb", "\u009f", "x" * 33, "idle"):
        yield "category", f"category {name!r}", replace(STATE, attributes=[category("machine", "idle", name)])


def profile_bad(fault: str) -> Vectors:
    cases = []
    for expect, note, p in bad_profiles():
        if expect == fault:
            assert outcome(ref.canonical, p) == expect, (note, outcome(ref.canonical, p))
            cases.append({"note": note, **profile_fields(p), "expect": expect})
    return f"Section 10: profiles that are refused for their {fault}.", cases


FAULTS = sorted({fault for fault, _, _ in bad_profiles()})
MAKERS: tuple[Callable[[], Vectors], ...] = (profile,)
