"""attrs, with what it generates made when it is first used: two hundred classes take a quarter of a second otherwise.

What stands here means what it means in attrs, without validators, ordering and `on_setattr`; the rest is asked of attrs itself. For
whatever looks at the fields of a class (cattrs, `attrs.fields`, `attrs.evolve`) it is a class of attrs.

An object of a frozen class is made by plain assignments: it is of a subclass that can be written meanwhile. attrs writes each field
with a call, and a step makes some twenty objects of up to sixty fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, get_type_hints

if TYPE_CHECKING:
    from attrs import (
        NOTHING,
        Attribute,
        AttrsInstance,
        Factory,
        asdict,
        define,
        evolve,
        field,
        fields,
        fields_dict,
        frozen,
        has,
        resolve_types,
    )

__all__ = [
    "NOTHING",
    "Attribute",
    "AttrsInstance",
    "Factory",
    "asdict",
    "changed",
    "copied",
    "define",
    "evolve",
    "field",
    "fields",
    "fields_dict",
    "freeze",
    "frozen",
    "has",
    "new",
    "resolve_types",
    "thaw",
]

Thing = TypeVar("Thing")
P = ParamSpec("P")

_set_class: Final = object.__dict__["__class__"].__set__

#: What a class keeps its fields by.
_FIELDS: Final = "__all_fields__"


class _Nothing:
    def __repr__(self) -> str:
        return "NOTHING"


_NOTHING: Final = _Nothing()


class _Factory:
    """A default that is made for each object, from the object where `takes_self`."""

    __slots__ = ("factory", "takes_self")

    def __init__(self, factory: Callable[..., object], takes_self: bool = False) -> None:
        self.factory, self.takes_self = factory, takes_self


class _Said:
    """What the body of a class says of a field."""

    __slots__ = ("said",)

    def __init__(self, *, factory: Callable[[], object] | None = None, **said: Any) -> None:
        self.said = said if factory is None else said | {"default": _Factory(factory)}

    def default(self, method: Callable[[Any], object]) -> Callable[[Any], object]:
        self.said["default"] = _Factory(method, takes_self=True)
        return method


class _Field:
    """A field of a class."""

    __slots__ = ("argument", "converter", "default", "eq", "hash", "init", "kw_only", "name", "repr", "type")

    def __init__(
        self, name: str, kind: object, kw_only: bool, *, default: object = _NOTHING, init: bool = True, repr: bool = True,
        eq: bool = True, hash: bool | None = None, converter: Callable[[Any], object] | None = None,
    ) -> None:  # fmt: skip
        self.name, self.argument, self.type, self.kw_only = name, name.lstrip("_"), kind, kw_only
        self.default, self.converter, self.init = default, converter, init
        self.repr, self.eq, self.hash = repr, eq, hash

    @property
    def given(self) -> object:
        """The type of what an `__init__` takes for it."""
        return next(iter(getattr(self.converter, "__annotations__", {}).values()), self.type)

    def of_attrs(self) -> Any:
        """The field as attrs has it in the body of a class."""
        said = {name: getattr(self, name) for name in self.__slots__ if name not in ("argument", "default", "name")}
        if isinstance(self.default, _Factory):
            said["default"] = _attrs("Factory")(self.default.factory, takes_self=self.default.takes_self)
        elif self.default is not _NOTHING:
            said["default"] = self.default
        return _attrs("field")(**said)


class _Made:
    """Something of a class that is made when it is first looked up.

    It has no `__set_name__`: before Python 3.12, Ctrl-C in that comes out as a RuntimeError about the class.
    """

    __slots__ = ("kind", "make", "name")

    kind: type
    name: str

    def __init__(self, make: Callable[[Any], object]) -> None:
        self.make = make

    def __get__(self, thing: object, owner: type) -> Any:
        made = self.make(self.kind)
        if isinstance(made, FunctionType):
            made.__qualname__, made.__module__ = f"{self.kind.__qualname__}.{self.name}", self.kind.__module__
        setattr(self.kind, self.name, made)
        return made if thing is None or not isinstance(made, FunctionType) else made.__get__(thing)


def _at_first(name: str, make: Callable[[type], Callable[..., Any]]) -> FunctionType:
    """A special method that is made when it is first called, and then takes the place of this one.

    It is a function, not a `_Made`: where CPython looks up the special method of an operator, it drops whatever `__get__` raises,
    Ctrl-C too, and goes on as if there were no such method.
    """

    __class__: type = object  # as a method has it: `_built` says which

    def first(self: object, *given: object) -> Any:
        kind = __class__
        if kind.__dict__[name] is first:
            made = make(kind)
            made.__qualname__, made.__module__ = f"{kind.__qualname__}.{name}", kind.__module__
            setattr(kind, name, made)
        return kind.__dict__[name](self, *given)

    return first  # type: ignore[return-value]


def _attrs(name: str) -> Any:
    import attrs

    return getattr(attrs, name)


def _function(lines: Iterable[str], known: dict[str, Any]) -> FunctionType:
    made: dict[str, FunctionType] = {}
    exec("\n    ".join(lines), known, made)
    (function,) = made.values()
    return function


def _known(fields: Iterable[_Field]) -> dict[str, Any]:
    """What an `__init__` reads of its fields, by the names that it has for them."""
    known: dict[str, Any] = {"NOTHING": _NOTHING, "CLASS": _set_class, "SET": object.__setattr__}
    for one in fields:
        known[f"convert_{one.name}"], known[f"default_{one.name}"] = one.converter, one.default
        if isinstance(one.default, _Factory):
            known[f"make_{one.name}"], known[f"default_{one.name}"] = one.default.factory, _NOTHING
    return known


def _value(one: _Field) -> str:
    """What is written into a field."""
    value = one.argument if one.init else f"default_{one.name}"
    if isinstance(one.default, _Factory):
        made = f"make_{one.name}({'self' if one.default.takes_self else ''})"
        value = f"{made} if {one.argument} is NOTHING else {one.argument}" if one.init else made
    if one.converter is None:
        return value
    default = one.default
    if not one.init or default is _NOTHING or isinstance(default, _Factory) or one.converter(default) is not default:
        return f"convert_{one.name}({value})"
    return f"{value} if {value} is default_{one.name} else convert_{one.name}({value})"


def _parameters(fields: Iterable[_Field], *first: str) -> str:
    """Those of a function that is given the fields."""
    places, names = [*first], ["*"]
    for one in fields:
        if one.init:
            given = one.argument if one.default is _NOTHING else f"{one.argument}=default_{one.name}"
            (names if one.kw_only else places).append(given)
    return ", ".join([*places, *(names if len(names) > 1 else [])])


def _init(kind: type, *, others: bool = False) -> FunctionType:
    """`__init__`; `others`: for objects of classes that derive from a frozen one."""
    fields = _fields(kind)
    frozen = kind.__setattr__ is _refused and not others
    known = _known(fields) | ({"KIND": kind, "WRITABLE": _WRITABLE[kind]} if frozen else {})
    write = "SET(self, {!r}, {})" if others else "self.{} = {}"
    lines = [write.format(one.name, _value(one)) for one in fields if one.init or one.default is not _NOTHING]
    if frozen:
        again = ", ".join(f"{one.argument}={one.argument}" for one in fields if one.init)
        begin = ["if self.__class__ is not KIND:", f"    return KIND.__init_others__(self, {again})", "CLASS(self, WRITABLE)"]
        lines = [*begin, *lines, "CLASS(self, KIND)"]
    if hasattr(kind, "__attrs_post_init__"):
        lines.append("self.__attrs_post_init__()")
    made = _function([f"def __init__({_parameters(fields, 'self')}):", *lines, "return None"], known)
    made.__annotations__ = {one.argument: one.given for one in fields if one.init} | {"return": None}
    return made


def _eq(kind: type) -> FunctionType:
    same = " and ".join(f"self.{one.name} == other.{one.name}" for one in _fields(kind) if one.eq)
    other = "NotImplemented if other.__class__ is not self.__class__ else"
    return _function(["def __eq__(self, other):", f"return {other} {same or True}"], {})


def _hash(kind: type) -> FunctionType:
    values = "".join(f"self.{one.name}, " for one in _fields(kind) if (one.eq if one.hash is None else one.hash))
    return _function(["def __hash__(self):", f"return hash((KIND, {values}))"], {"KIND": id(kind)})


def _repr(kind: type) -> Callable[[object], str]:
    names = [one.name for one in _fields(kind) if one.repr]

    def shown(self: object) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__.rsplit('>.', 1)[-1]}({fields})"

    return shown


def _match_args(kind: type) -> tuple[str, ...]:
    return tuple(one.name for one in _fields(kind) if one.init and not one.kw_only)


def _attributes(kind: type) -> Any:
    made = _attrs("make_class")(
        kind.__name__, {one.name: one.of_attrs() for one in _fields(kind)}, init=False, repr=False, eq=False
    )
    return made.__attrs_attrs__


def _refused(self: object, name: str, value: object = None) -> None:
    raise _attrs("exceptions").FrozenInstanceError


def _state(self: object) -> dict[str, object]:
    return {one.name: getattr(self, one.name) for one in _fields(type(self)) if hasattr(self, one.name)}


def _restored(self: object, state: dict[str, object]) -> None:
    for name, value in state.items():
        object.__setattr__(self, name, value)


def _own_fields(kind: type, kw_only: bool) -> dict[str, _Field]:
    own = {}
    for name, type_ in kind.__annotations__.items():
        if not str(type_).startswith(("ClassVar", "typing.ClassVar")):
            value = kind.__dict__.get(name, _NOTHING)
            said = value.said if isinstance(value, _Said) else {"default": value}
            own[name] = _Field(name, type_, **({"kw_only": kw_only} | said))
    return own


def _built(kind: type, *, frozen: bool, kw_only: bool, slots: bool, eq: bool, repr: bool) -> Any:
    own = _own_fields(kind, kw_only)
    fields: dict[str, _Field] = {}
    for base in reversed(kind.__mro__[1:]):
        fields |= base.__dict__.get(_FIELDS, {})
    body: dict[str, Any] = {_FIELDS: {name: one for name, one in fields.items() if name not in own} | own}
    body |= {"__init__": _Made(_init), "__match_args__": _Made(_match_args), "__attrs_attrs__": _Made(_attributes)}
    if frozen:
        body |= {"__setattr__": _refused, "__delattr__": _refused, "__init_others__": _Made(lambda kind: _init(kind, others=True))}
    if repr:
        body["__repr__"] = _at_first("__repr__", _repr)
    if eq and "__eq__" not in kind.__dict__:
        body |= {"__eq__": _at_first("__eq__", _eq), "__hash__": _at_first("__hash__", _hash) if frozen else None}
    if slots:
        weak = () if any("__weakref__" in base.__dict__ for base in kind.__mro__[1:]) else ("__weakref__",)
        inherited = {name for base in kind.__mro__[1:] for name in base.__dict__.get("__slots__", ())}
        body |= {"__slots__": (*(name for name in own if name not in inherited), *weak)}
        body |= {"__getstate__": _state, "__setstate__": _restored}
    body |= {name: value for name, value in kind.__dict__.items() if name not in own and name not in ("__dict__", "__weakref__")}
    made = type(kind)(kind.__name__, kind.__bases__, body | {"__qualname__": kind.__qualname__})
    for name, value in body.items():
        if type(value) is _Made:
            value.kind, value.name = made, name
        function = getattr(value, "fget", None) or getattr(value, "__func__", value)
        if "__class__" in getattr(getattr(function, "__code__", None), "co_freevars", ()):
            function.__closure__[function.__code__.co_freevars.index("__class__")].cell_contents = made
    return made


class _Writable(dict[type, type]):
    """The subclass of each frozen class whose objects can be written; made when the first one is."""

    def __missing__(self, kind: type) -> type:
        writes = {
            "__slots__": (),
            "__setattr__": object.__setattr__,
            "__delattr__": object.__delattr__,
            "__init__": object.__init__,
        }
        made: type = type(kind.__name__, (kind,), writes)
        _FROZEN[kind] = _FROZEN[made] = kind
        self[made] = made
        self[kind] = made  # the last: who is interrupted before makes it again
        return made


_WRITABLE: Final = _Writable()
_FROZEN: Final[dict[type, type]] = {}


class _Copiers(dict[Any, Any]):
    """What copies an object of a class into one that can be written."""

    if TYPE_CHECKING:

        def __getitem__(self, kind: Callable[P, Thing]) -> Callable[[Thing], Thing]: ...

    def __missing__(self, kind: type) -> Callable[[Any], Any]:
        writable, names = _WRITABLE[kind], [one.name for one in _fields(kind)]
        lines = ["copy = WRITABLE()", *(f"copy.{name} = row.{name}" for name in names), "return copy"]
        self[kind] = made = _function(["def copied(row):", *lines], {"WRITABLE": writable})
        return made


#: `copied[Task](row)` is a copy of a frozen row that can be written until it is frozen.
copied: Final = _Copiers()


class _Makers(dict[Any, Any]):
    """What makes an object of a class of ours as the class itself does, in half the time: calling a class by names is slow."""

    if TYPE_CHECKING:

        def __getitem__(self, kind: Callable[P, Thing]) -> Callable[P, Thing]: ...

    def __missing__(self, kind: type) -> Callable[..., Any]:
        fields = _fields(kind)
        known = _known(fields) | {"KIND": kind, "WRITABLE": _WRITABLE[kind]}
        writes = [f"self.{one.name} = {_value(one)}" for one in fields if one.init or one.default is not _NOTHING]
        ends = ["self.__class__ = KIND", *(["self.__attrs_post_init__()"] if hasattr(kind, "__attrs_post_init__") else [])]
        self[kind] = made = _function(
            [f"def new({_parameters(fields)}):", "self = WRITABLE()", *writes, *ends, "return self"], known
        )
        return made


#: `new[Task](…)` is `Task(…)`; for what every step makes.
new: Final = _Makers()


def thaw(row: Thing) -> Thing:
    """A frozen object that nobody else has seen yet, to be written."""
    _set_class(row, _WRITABLE[type(row)])
    return row


def freeze(row: Thing) -> Thing:
    """A copy that is not written any more: what it is from now on."""
    row.__class__ = _FROZEN[type(row)]
    return row


def changed(row: Thing, **fields: object) -> Thing:
    """A frozen object with other values in some fields, as they are; raises AttributeError for a name that is no field's."""
    copy: Thing = copied[type(row)](row)
    for name, value in fields.items():
        setattr(copy, name, value)
    return freeze(copy)


def _evolved(thing: Any, /, **changes: object) -> Any:
    kind = _FROZEN.get(type(thing), type(thing))
    for one in _fields(kind):
        if one.init and one.argument not in changes:
            changes[one.argument] = getattr(thing, one.name)
    return kind(**changes)


def _fields(kind: Any) -> Any:
    own = getattr(kind, _FIELDS, None)
    return _attrs("fields")(kind) if own is None else tuple(own.values())


def _fields_dict(kind: Any) -> Any:
    own = getattr(kind, _FIELDS, None)
    return _attrs("fields_dict")(kind) if own is None else dict(own)


def _has(kind: Any) -> bool:
    kind = getattr(kind, "__origin__", None) or kind
    return hasattr(kind, _FIELDS) or hasattr(kind, "__attrs_attrs__")


def _resolve_types(kind: Any) -> Any:
    if any(isinstance(one.type, str) for one in _fields(kind)):
        hints = get_type_hints(kind)
        for one in _fields(kind):
            one.type = hints[one.name]
    return kind


if not TYPE_CHECKING:
    NOTHING, Factory, field = _NOTHING, _Factory, _Said
    fields, fields_dict, has, resolve_types, evolve = _fields, _fields_dict, _has, _resolve_types, _evolved

    def define(kind=None, *, frozen=False, kw_only=False, slots=True, eq=True, repr=True):
        """A class of fields, as attrs has it."""

        def decorate(kind):
            return _built(kind, frozen=frozen, kw_only=kw_only, slots=slots, eq=eq, repr=repr)

        return decorate if kind is None else decorate(kind)

    def frozen(kind=None, **options):
        """The same, whose objects nobody changes."""
        return define(kind, frozen=True, **options)

    def __getattr__(name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _attrs(name)
