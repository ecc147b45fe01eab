"""SHA-256 of values, traced programs and Python functions, by what they hold and compute and not by their names."""

import dataclasses
import functools
import hashlib
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

UNREAD = frozenset(
    ("name", "name_and_src_info", "debug_info", "policy", "computation", "out_trees")
    + ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd")
)
"""Parameters of equations that do not change what is computed: names, what is kept for derivatives, and the rules of
derivatives. A rule that a program uses stands in that program as equations."""
ADDRESS = re.compile(r" ?(at )?0x[0-9a-fA-F]+")
FUNCTION = re.compile(r"<(?:wrapped function|function|bound method) (?:[^<>]|<[^<>]*>)*>")
LIBRARIES = ("jax", "functools", "equinox")
"""A wrapper that one of these made is read through to the function inside."""


def anonymous(text: str) -> str:
    """A printed object without places in memory, which differ from process to process, and names of functions."""
    text = FUNCTION.sub("<function>", ADDRESS.sub("", text))
    return text.replace("<PjitFunction of <function>>", "<function>")


def _hash(kind: str, parts: Iterable[bytes | str]) -> str:
    """SHA-256 of a kind and its parts, with their lengths, so that no two lists of parts give the same bytes."""
    result = hashlib.sha256(kind.encode())
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        result.update(f":{len(content)}:".encode())
        result.update(content)
    return result.hexdigest()


def _package(function: Any) -> str:
    return (getattr(function, "__module__", None) or "").partition(".")[0]


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | jax.Array) or (hasattr(value, "__array__") and hasattr(value, "dtype"))


def _named(value: Any) -> str:
    """A function that is known by its name only, such as one of a library or of a compiled extension."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or type(value).__qualname__
    return _hash("named", [str(getattr(value, "__module__", None)), str(name)])


class Digest:
    """The digests of values that may share parts, or hold themselves; call it with a value."""

    def __init__(self) -> None:
        # The values stay alive beside their digests, so that no other value can get the identity of one of them.
        self._known: dict[int, tuple[Any, str]] = {}

    def __call__(self, value: Any) -> str:
        """SHA-256 of one value."""
        if id(value) not in self._known:
            self._known[id(value)] = value, "a part of itself"
            self._known[id(value)] = value, self._of(value)
        return self._known[id(value)][1]

    def _of(self, value: Any) -> str:
        match value:
            case None | bool() | int() | float() | complex() | str() | bytes():
                return _hash("value", [repr(value)])
            case np.generic() if not value.dtype.hasobject:
                return _hash("value", [repr(value.item())])
            case tuple() | list():
                return _hash("sequence", map(self, value))
            case set() | frozenset():
                return _hash("set", sorted(map(self, value)))
            case Mapping():
                pairs = sorted((self(key), self(part)) for key, part in value.items())
                return _hash("mapping", [part for pair in pairs for part in pair])
            case types.ModuleType():
                return _hash("module", [value.__name__])
            case types.CodeType():  # what it does: its instructions, its constants and the names that it asks for
                return _hash("code", [value.co_code, *map(self, value.co_consts), *value.co_names])
            case type():
                return _named(value)
            case _ if hasattr(value, "eqns"):
                return self._program(value)
            case _ if _is_array(value):
                return self._array(value)
            case types.FunctionType():
                return self._function(value)
            case types.MethodType():
                return _hash("method", map(self, (value.__func__, value.__self__)))
            case functools.partial():
                return _hash("partial", map(self, (value.func, value.args, value.keywords)))
            case _ if callable(value) and not dataclasses.is_dataclass(value):
                return self._callable(value)
        return self._object(value)

    def _array(self, array: Any) -> str:
        """The bytes of an array, with its shape and dtype."""
        about = f"{array.dtype}{array.shape}"
        if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
            array = jax.random.key_data(array)
        array = np.asarray(array)
        if array.dtype.hasobject:
            return _hash("objects", [about, *map(self, array.ravel().tolist())])
        return _hash("array", [about, np.ascontiguousarray(array).tobytes()])

    def _program(self, program: Any) -> str:
        """The equations of a traced program and of those that it calls, with all their constants.

        Variables are numbered in the order in which they appear. JAX names nothing else in a program that matters.
        """
        consts, program = getattr(program, "consts", ()), getattr(program, "jaxpr", program)
        numbers: dict[Any, int] = {}

        def shown(variable: Any) -> str:
            if isinstance(variable, jex.Literal):
                return f"{variable.aval} {self(np.asarray(variable.val))}"
            return f"{numbers.setdefault(variable, len(numbers))} {variable.aval}"

        parts = [*map(self, consts), *map(shown, program.constvars), "inputs", *map(shown, program.invars)]
        for equation in program.eqns:
            chosen = {name: part for name, part in equation.params.items() if name not in UNREAD}
            parts += ["equation", equation.primitive.name, self(chosen), *map(shown, equation.invars)]
            parts += ["gives", *map(shown, equation.outvars)]
        return _hash("program", [*parts, "outputs", *map(shown, program.outvars)])

    def _callable(self, value: Any) -> str:
        """An object that can be called by what it wraps, or by its fields if Python calls it; any other by its name."""
        if hasattr(value, "__wrapped__") and type(value).__module__.startswith(LIBRARIES):
            return self(value.__wrapped__)
        written_in_python = isinstance(type(value).__call__, types.FunctionType)
        return self._object(value) if written_in_python else _named(value)

    def _function(self, function: types.FunctionType) -> str:
        """A Python function by its code and by the values that it closes over."""
        cells = []
        for cell in function.__closure__ or ():
            try:
                cells.append(self(cell.cell_contents))
            except ValueError:  # a name that has no value yet
                cells.append("empty")
        defaults = map(self, (function.__defaults__, function.__kwdefaults__))
        return _hash("function", [self(function.__code__), *cells, *defaults, *self._globals(function)])

    def _globals(self, function: types.FunctionType) -> Iterator[str]:
        """The values of the global names that a function asks for.

        Functions of other packages are known by their names: their inner state is not the user's.
        """
        for name in _names(function.__code__):
            if name in function.__globals__:
                value = function.__globals__[name]
                foreign = isinstance(value, types.FunctionType) and _package(value) != _package(function)
                yield _named(value) if foreign else self(value)

    def _object(self, value: Any) -> str:
        """Any other object by its class and its fields; those of JAX by their text, as their fields hold caches."""
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        call = type(value).__call__ if callable(value) and not kind.startswith("jax") else None
        parts = [self(call)] if isinstance(call, types.FunctionType) else []
        if dataclasses.is_dataclass(value):
            fields = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
            return _hash(kind, [*parts, self(fields)])
        if kind.startswith("jax") or not hasattr(value, "__dict__"):
            return _hash(kind, [anonymous(repr(value))])
        return _hash(kind, [*parts, self(dict(vars(value)))])


def _names(code: types.CodeType) -> list[str]:
    """The names that code, or a function defined in it, asks for."""
    inside = (name for part in code.co_consts if isinstance(part, types.CodeType) for name in _names(part))
    return sorted({*code.co_names, *inside})


def digest(value: Any) -> str:
    """SHA-256 of what a value holds or computes, the same in every process."""
    return Digest()(value)
