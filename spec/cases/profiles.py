# SPDX-License-Identifier: MIT
"""Cases for section 10: profiles, and profiles that are refused."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import reference as ref
from cases.tools import Case, Vectors, outcome

# ---- 10. The profile ------------------------------------------------------------------------------------------------


def profile_fields(p: ref.Profile) -> Case:
    """Return low and high as decimal strings, as they can exceed 2^53."""
    fields = {**vars(p), "mechanism": ref.MECHANISM_NAMES[p.mechanism]}
    if p.mechanism == ref.HARMONY:
        fields["attributes"] = [{**vars(a), "low": str(a.low), "high": str(a.high)} for a in p.attributes]
    else:
        fields["attributes"] = [{"name": a.name} for a in p.attributes]
    absent = {"categories": [], "domain": 0, "lifetime": None}
    return {key: value for key, value in fields.items() if key not in absent or value != absent[key]}


CLIMATE = ref.Profile(
    name="climate",
    mechanism=ref.HARMONY,
    epsilon=2**20,
    width=48,
    seed=12345,
    quota=96,
    period=86400,
    attributes=[
        ref.Attribute("temperature", "°C", -40_000_000, 85_000_000),
        ref.Attribute("humidity", "%", 0, 100_000_000),
        ref.Attribute("pressure", "hPa", 300_000_000, 1_100_000_000),
        ref.Attribute("count", "", 0, 1),
    ],
    categories=[],
)
STATE = ref.Profile(
    name="state",
    mechanism=ref.KRR,
    epsilon=3 * 2**19,
    width=48,
    seed=0,
    quota=1,
    period=1,
    attributes=[ref.Attribute("machine")],
    categories=["idle", "running", "Störung", "停止", "=", " 🔧 a b"],
)

VISITS = replace(STATE, name="visits", mechanism=ref.HASHING, epsilon=2**20, categories=[], domain=65535)


def profile() -> Vectors:
    comment = (
        "Section 10: fields, canonical form (in UTF-8) and id. `low` and `high` are in millionths, as decimal strings."
    )
    edge = replace(
        CLIMATE,
        name="z" + "_" * 31,
        epsilon=1,
        width=1024,
        seed=2**32 - 1,
        quota=10**6,
        period=10**8,
        attributes=[ref.Attribute("a", "µ" * 16, -(10**18), 10**18), ref.Attribute("b9_", "x" * 32, -1, 0)],
    )
    wide = replace(
        CLIMATE,
        name="many",
        epsilon=2**24,
        width=64,
        attributes=[ref.Attribute(f"a{i}", "mm/s", -i - 1, i) for i in range(40)],
    )
    swapped = replace(CLIMATE, attributes=CLIMATE.attributes[::-1])
    profiles = [CLIMATE, swapped, STATE, edge, wide, replace(STATE, categories=["é" * 16, "e\u0301", "é"])]
    profiles += [replace(CLIMATE, name="thermometer", attributes=CLIMATE.attributes[:1])]
    profiles += [replace(CLIMATE, lifetime=35040), replace(STATE, lifetime=2**48 - 1)]
    profiles += [VISITS, replace(VISITS, domain=2), replace(VISITS, epsilon=2**24, width=127)]
    profiles += [replace(STATE, mechanism=ref.HASHING)]
    return comment, [
        {**profile_fields(p), "canonical": ref.canonical(p).decode(), "id": ref.profile_id(p)} for p in profiles
    ]


def bad_profiles() -> Iterator[tuple[str, str, ref.Profile]]:
    """Yield file name, note and profile. Each profile breaks one rule of section 10."""
    first, *others = CLIMATE.attributes
    for name in ("", "Climate", "9a", "_a", "a-b", "a" * 33, "a\n"):
        yield "name", f"profile name {name!r}", replace(CLIMATE, name=name)
    for epsilon in (0, 2**24 + 1):
        yield "epsilon", f"epsilon {epsilon}", replace(CLIMATE, epsilon=epsilon)
    for width in (3, 1025, 0):
        yield "width", f"width {width} for 4 attributes", replace(CLIMATE, width=width)
    yield "width", "no attribute", replace(CLIMATE, attributes=[])
    yield "width", "one category only", replace(STATE, categories=["idle"])
    yield "width", "width 48 for 127 symbols", replace(VISITS, epsilon=2**24)
    for domain in (1, 65536):
        yield "domain", f"a domain of {domain}", replace(VISITS, domain=domain)
    yield "domain", "neither a domain nor categories", replace(VISITS, domain=0)
    yield "domain", "a domain and categories", replace(VISITS, categories=["idle", "running"])
    yield "domain", "krr with a domain only", replace(STATE, categories=[], domain=6)
    yield "seed", "seed 2^32", replace(CLIMATE, seed=2**32)
    for quota in (0, 10**6 + 1):
        yield "quota", f"quota {quota}", replace(CLIMATE, quota=quota)
    for period in (0, 10**8 + 1):
        yield "period", f"period {period}", replace(CLIMATE, period=period)
    for lifetime in (0, 2**48):
        yield "lifetime", f"lifetime {lifetime}", replace(CLIMATE, lifetime=lifetime)
    yield "attribute", "two of the same name", replace(CLIMATE, attributes=[first, *others, first])
    yield "attribute", "a name in capitals", replace(CLIMATE, attributes=[replace(first, name="CO2"), *others])
    yield "attribute", "krr with two attributes", replace(STATE, attributes=[ref.Attribute("a"), ref.Attribute("b")])
    yield "attribute", "hashing without attribute", replace(VISITS, attributes=[])
    for unit in ("a|b", "a\nb", "\x7f", "\x85", "µ" * 16 + "x"):
        yield "unit", f"unit {unit!r}", replace(CLIMATE, attributes=[replace(first, unit=unit), *others])
    for low, high in ((0, 0), (1, 0), (-(10**18) - 1, 0), (0, 10**18 + 1)):
        yield (
            "range",
            f"from {low} to {high}",
            replace(CLIMATE, attributes=[replace(first, low=low, high=high), *others]),
        )
    for category in ("", "a|b", "a\tb", "\u009f", "x" * 33, "idle"):
        yield "category", f"category {category!r}", replace(STATE, categories=["idle", category])


def profile_bad(fault: str) -> Vectors:
    cases = []
    for expect, note, p in bad_profiles():
        if expect == fault:
            assert outcome(ref.canonical, p) == expect, note
            cases.append({"note": note, **profile_fields(p), "expect": expect})
    return f"Section 10: profiles that are refused for their {fault}.", cases


FAULTS = sorted({fault for fault, _, _ in bad_profiles()})
MAKERS: tuple[Callable[[], Vectors], ...] = (profile,)
