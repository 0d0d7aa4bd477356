# SPDX-License-Identifier: Apache-2.0
"""Classes whose instances the interop objects hold; every process imports them from here."""

import collections
import copyreg
import dataclasses
import enum
import typing

import torch


class Color(enum.Enum):
    RED = 1
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 10


class Access(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Config:
    width: int
    rate: float
    name: str = "base"
    tags: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class FrozenConfig:
    width: int
    name: str


Point = collections.namedtuple("Point", "x y")


class Pair(typing.NamedTuple):
    left: typing.Any
    right: typing.Any


class Plain:
    """An object with nothing but a __dict__."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def method(self):
        return self


class Slots:
    __slots__ = ("first", "second")

    def __init__(self, first, second):
        self.first = first
        self.second = second


class SlotsAndDict(Slots):
    """Slots in the base, a __dict__ here: the state is a pair."""

    def __init__(self, first, second, third):
        super().__init__(first, second)
        self.third = third


class GetState:
    """A state that is not a dict."""

    def __init__(self, items):
        self.items = items

    def __getstate__(self):
        return tuple(self.items)

    def __setstate__(self, state):
        self.items = list(state)


class NewArgs:
    def __new__(cls, *args):
        self = super().__new__(cls)
        self.args = args
        return self

    def __getnewargs__(self):
        return self.args


class NewArgsEx:
    def __new__(cls, number, name="none"):
        self = super().__new__(cls)
        self.number = number
        self.name = name
        return self

    def __getnewargs_ex__(self):
        return (self.number,), {"name": self.name}


def set_state(target, state):
    target.__dict__.update(state)


class ReduceAll(list):
    """A reducer with all six parts: callable, arguments, state, items, pairs, state setter."""

    def __init__(self, label=""):
        super().__init__()
        self.label = label
        self.pairs = {}

    def __setitem__(self, key, value):
        self.pairs[key] = value

    def __reduce_ex__(self, protocol):
        state = {"label": self.label}
        return (ReduceAll, (), state, iter(self), iter(self.pairs.items()), set_state)


class HoldsItself:
    """Rebuilt from a list in which it is an element itself."""

    def __init__(self, items):
        self.items = items

    def __reduce__(self):
        return HoldsItself, (self.items,)


class Registered:
    """Reduced by a function in copyreg's table."""

    def __init__(self, value):
        self.value = value


def reduce_registered(item):
    return Registered, (item.value,)


copyreg.pickle(Registered, reduce_registered)


class IntChild(int):
    pass


class StrChild(str):
    pass


class FloatChild(float):
    pass


class BytesChild(bytes):
    pass


class TupleChild(tuple):
    pass


class ListChild(list):
    pass


class DictChild(dict):
    pass


class OrderedChild(collections.OrderedDict):
    pass


class SetChild(set):
    pass


class Outer:
    class Inner:
        """A class whose qualified name has a dot."""

        def __init__(self, value):
            self.value = value


def function(value):
    return value


class TensorChild(torch.Tensor):
    """A tensor subclass without a reducer of its own."""


class Net(torch.nn.Module):
    """A module written by a user, with a parameter, buffers and a plain attribute."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 2, 3)
        self.norm = torch.nn.BatchNorm2d(2)
        self.scale = torch.nn.Parameter(torch.ones(2))
        self.register_buffer("steps", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("scratch", torch.zeros(3))
        self.width = 2

    def forward(self, value):
        return self.norm(self.conv(value))


class Wide(torch.nn.Module):
    """With more names than its instances can share."""

    def __init__(self):
        super().__init__()
        self.width, self.in_features, self.dropout = 3, 2, 0.5
        self.a, self.b, self.c, self.d, self.e = (torch.nn.ReLU() for _ in range(5))
        self.f, self.g, self.h, self.i, self.j = (torch.nn.Dropout() for _ in range(5))


class LinearChild(torch.nn.Linear):
    """Assigns nothing of its own."""


class GivesItsArgs:
    """__reduce__() with the tuple of arguments that is an attribute, too."""

    def __init__(self, *args):
        self.args = args

    def __reduce__(self):
        return GivesItsArgs, self.args, self.__dict__


class GivesArgsAlone:
    """... and without a state: who loads it gets another tuple."""

    def __init__(self, *args):
        self.args = args

    def __reduce__(self):
        return GivesArgsAlone, self.args
