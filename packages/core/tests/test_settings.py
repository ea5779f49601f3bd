"""Settings: what is taken, what is refused, and how the refusal reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.configuration.settings import from_mapping, setting, settings_of, to_mapping
from rheos.errors import ConfigError


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Inner:
    depth: int = setting(1, minimum=1)


@dataclass(frozen=True)
class Everything:
    number: float = setting(0.5, exclusive_minimum=0, maximum=1, unit="s", help="a number")
    count: int = setting(3, minimum=1)
    flag: bool = True
    word: str = setting("a", choices=("a", "b"))
    maybe: float | None = setting(None, minimum=0)
    sizes: tuple[int, ...] = setting((64, 64), minimum=1)
    pair: tuple[int, float] = (1, 2.0)
    colour: Colour = Colour.RED
    style: Literal["x", "y"] = "x"
    inner: Inner = Inner()
    extras: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Required:
    rate: float = setting(exclusive_minimum=0)


def refusal(**settings: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        from_mapping(Everything, settings, path="algo")
    return str(caught.value)


def test_an_empty_mapping_gives_the_defaults():
    assert Everything() == from_mapping(Everything, {})


def test_what_loses_nothing_is_converted():
    made = from_mapping(
        Everything,
        {"number": 1, "count": 3e5, "sizes": [32], "pair": [2, 3], "colour": "blue", "inner": {"depth": 4}, "maybe": 2},
    )

    assert Everything(1.0, 300_000, sizes=(32,), pair=(2, 3.0), colour=Colour.BLUE, inner=Inner(4), maybe=2.0) == made
    assert [float, int, float] == [type(made.number), type(made.count), type(made.pair[1])]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"number": "fast"}, "algo.number: got 'fast' (str), expected a number > 0 and <= 1"),
        ({"number": -1}, "algo.number: got -1 (int), expected a number > 0 and <= 1"),
        ({"number": 0}, "algo.number: got 0 (int), expected a number > 0 and <= 1"),
        ({"number": float("nan")}, "algo.number: got nan (float), expected a number > 0 and <= 1"),
        ({"number": None}, "algo.number: got null, expected a number > 0 and <= 1"),
        ({"number": True}, "algo.number: got True (bool), expected a number > 0 and <= 1"),
        ({"count": 2.5}, "algo.count: got 2.5 (float), expected an integer >= 1"),
        ({"count": True}, "algo.count: got True (bool), expected an integer >= 1"),
        ({"count": "3"}, "algo.count: got '3' (str), expected an integer >= 1"),
        ({"flag": 1}, "algo.flag: got 1 (int), expected true or false"),
        ({"word": "c"}, "algo.word: got 'c' (str), expected one of 'a', 'b'"),
        ({"maybe": -1}, "algo.maybe: got -1 (int), expected a number >= 0 or null"),
        ({"sizes": 64}, "algo.sizes: got 64 (int), expected a list of integers >= 1"),
        ({"sizes": "64"}, "algo.sizes: got '64' (str), expected a list of integers >= 1"),
        ({"sizes": [64, 0]}, "algo.sizes[1]: got 0 (int), expected an integer >= 1"),
        ({"pair": [1]}, "algo.pair: got [1] (list), expected a list of 2 values"),
        ({"colour": "green"}, "algo.colour: got 'green' (str), expected one of 'red', 'blue'"),
        ({"style": "z"}, "algo.style: got 'z' (str), expected one of 'x', 'y'"),
        ({"inner": {"depth": 0}}, "algo.inner.depth: got 0 (int), expected an integer >= 1"),
        ({"inner": 3}, "algo.inner: got 3 (int), expected settings by name"),
        ({"limits": {"a": "b"}}, "algo.limits.a: got 'b' (str), expected an integer"),
        ({"extras": [1]}, "algo.extras: got [1] (list), expected settings by name"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path_and_what_was_expected(settings: dict[str, Any], message: str):
    assert message == refusal(**settings)


@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_that_no_float_is_near_is_refused_in_few_words(digits: int, sign: int):
    message = refusal(number=sign * 10**digits)

    assert message.startswith("algo.number: got ")
    assert message.endswith(" (int), expected a number > 0 and <= 1")
    assert len(message) < 160


@pytest.mark.parametrize("text", ["", " ", "\t\n"])
def test_where_a_string_must_not_be_empty_a_blank_one_is_refused(text: str):
    @dataclass(frozen=True)
    class Named:
        folder: str | None = setting(None, allow_empty=False)

    with pytest.raises(ConfigError, match=r"^folder: got '.*' \(str\), expected a string that is not empty or null$"):
        from_mapping(Named, {"folder": text})
    assert (None, "a") == tuple(from_mapping(Named, {"folder": folder}).folder for folder in (None, "a"))


def test_an_unknown_setting_is_refused_with_the_nearest_one_by_its_path():
    assert refusal(nunber=1).startswith("algo.nunber: no such setting. Did you mean 'algo.number'? Settings: number, ")
    assert ("algo.inner.dept: no such setting. Did you mean 'algo.inner.depth'? Settings: depth.") == refusal(
        inner={"dept": 1}
    )


def test_a_setting_without_a_default_must_be_given():
    with pytest.raises(ConfigError, match=r"^algo\.rate: is missing, expected a number > 0$"):
        from_mapping(Required, {}, path="algo")


@given(
    number=st.floats(min_value=1e-9, max_value=1),
    count=st.integers(min_value=1),
    sizes=st.lists(st.integers(min_value=1)).map(tuple),
    maybe=st.none() | st.floats(min_value=0, allow_infinity=False),
    colour=st.sampled_from(Colour),
    depth=st.integers(min_value=1),
    extras=st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text()),
)
def test_plain_data_gives_the_same_settings_again(number, count, sizes, maybe, colour, depth, extras):
    made = Everything(
        number=number, count=count, sizes=sizes, maybe=maybe, colour=colour, inner=Inner(depth), extras=extras
    )

    assert made == from_mapping(Everything, to_mapping(made))


def test_settings_are_described_with_type_default_range_unit_and_help():
    number, count, *_ = settings_of(Everything)
    (rate,) = settings_of(Required)

    assert (
        number.name,
        number.type,
        number.default,
        number.range,
        number.unit,
        number.help,
    ) == ("number", "float", 0.5, "> 0 and <= 1", "s", "a number")
    assert (">= 1", None, "") == (count.range, count.unit, count.help)
    assert (True, None) == (rate.required, rate.default)
    types = {setting.name: setting.type for setting in settings_of(Everything)}
    assert ("float | None", "tuple[int, ...]") == (types["maybe"], types["sizes"])
