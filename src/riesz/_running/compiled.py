"""Programs compiled once, for one device or for all devices of a mesh."""

import collections
import contextlib
import functools
import threading
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

SETTINGS = {"xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}
"""How the CPU's compiler is asked to work: half the time to compile, and steps are no slower."""
QUICK = {**SETTINGS, "xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""For programs that compute little: a fifth of the time to compile, and steps that take half as long again."""
KEPT = 32
"""Compiled programs are kept for this many problems: those of a D that nobody holds any more are let go in time."""


class Compiled:
    """A function compiled once for each structure of its arguments, with the programs of the last ones kept.

    A problem is part of the structure, so that each D and each density has programs of its own. An ordinary `jit` would
    keep the programs of every function that was ever passed, and the function itself, for ever.
    """

    def __init__(self, f: Callable[..., Any]):
        self.f, self._lock = f, threading.Lock()
        self._programs: collections.OrderedDict[Any, Any] = collections.OrderedDict()

    def __call__(self, *args: Any, quick: bool = False, mesh: Mesh | None = None) -> Any:
        """The value of the function, compiled; `quick` asks for quick compiling rather than quick running.

        On the devices of a mesh, arguments and values are whole on each of them.
        """
        arrays, rest = eqx.partition(args, lambda leaf: eqx.is_array(leaf) or isinstance(leaf, np.ndarray | np.generic))
        arrays = everywhere(arrays, mesh)
        leaves, structure = jax.tree.flatten(rest)
        key = structure, tuple(leaves), quick, mesh
        try:
            hash(key)
        except TypeError as error:
            raise TypeError(
                f"loss, D, method and metrics must be made of functions and objects that can be hashed, but {error}: "
                "make it a function, an equinox.Module, or a frozen dataclass."
            ) from error
        with self._lock:
            if key not in self._programs:
                self._programs[key] = self._program(rest, quick, mesh)
            self._programs.move_to_end(key)
            while len(self._programs) > KEPT:
                self._programs.popitem(last=False)
            program, fixed = self._programs[key]
        # A mesh that somebody has set is not this one, or not of this kind.
        with contextlib.nullcontext() if mesh is None else jax.set_mesh(mesh):
            return eqx.combine(program(arrays), fixed["output"])

    def _program(self, rest: Any, quick: bool, mesh: Mesh | None) -> Any:
        """The program, a function of arrays alone, and what of its output is none, known once it has been traced."""
        fixed: dict[str, Any] = {"output": None}

        def program(arrays: Any) -> Any:
            found, fixed["output"] = eqx.partition(self.f(*eqx.combine(arrays, rest)), eqx.is_array)
            return found

        settings = _known_settings(quick)
        if mesh is None:
            return jax.jit(program, compiler_options=settings), fixed
        return jax.jit(program, compiler_options=settings, out_shardings=NamedSharding(mesh, PartitionSpec())), fixed


def everywhere(tree: Any, mesh: Mesh | None) -> Any:
    """The arrays of a tree whole on every device of a mesh, where they are not; as they are without one."""
    if mesh is None:
        return tree
    whole = NamedSharding(mesh, PartitionSpec())

    def put(leaf: Any) -> Any:
        # Python's numbers stay what they are: a model may count by them.
        if not isinstance(leaf, jax.Array | np.ndarray | np.generic):
            return leaf
        if isinstance(leaf, jax.Array) and leaf.sharding == whole:
            return leaf
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(put(jax.random.key_data(leaf)), impl=jax.random.key_impl(leaf))
        # Not device_put, which compares the values of all processes, and takes NaN for different from itself.
        array = np.asarray(leaf)
        return jax.make_array_from_callback(array.shape, whole, lambda index: array[index])

    return jax.tree.map(put, tree)


def here(tree: Any, mesh: Mesh | None) -> Any:
    """The inverse of `everywhere`: arrays as one device of this process has them."""
    if mesh is None:
        return tree
    own = lambda leaf: leaf.addressable_shards[0].data if isinstance(leaf, jax.Array) else leaf
    return jax.tree.map(own, tree)


@functools.cache
def _known_settings(quick: bool) -> dict[str, Any]:
    """The settings that this version of the compiler knows; none where it is not the CPU's."""
    wanted = (QUICK if quick else SETTINGS) if jax.default_backend() == "cpu" else {}

    def is_known(settings: dict[str, Any]) -> bool:
        try:
            jax.jit(lambda x: x, compiler_options=settings).lower(np.float32(0)).compile()
        except jax.errors.JaxRuntimeError:
            return False
        return True

    return wanted if is_known(wanted) else {name: value for name, value in wanted.items() if is_known({name: value})}
