"""How the programs of tests are compiled: fast rather than well, but where the compiled program is what is tested.

With COMPILE=ordinary in the environment, as `make test-all` has it, everything is compiled as it is outside the tests.
"""

import os

QUICK = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}
ORDINARY = {
    "xla_backend_optimization_level": 3,
    "xla_llvm_disable_expensive_passes": False,
    "xla_cpu_use_fusion_emitters": True,
    "xla_cpu_parallel_codegen_split_count": 32,
}
"""What XLA does by itself, for `lowered.compile(ORDINARY)`."""

GIVEN = "XLA_FLAGS_BEFORE_THE_TESTS"
"""The variable that keeps the flags which the tests were started with: their workers inherit what is set here."""


def compile_fast():
    """Ask XLA to compile fast, here and in the processes that tests start; called before JAX starts its backend.

    Flags that were given come last, and so win.
    """
    if os.environ.get("COMPILE") == "ordinary":
        os.environ[GIVEN] = os.environ.get("XLA_FLAGS", "")
        return
    given = os.environ.setdefault(GIVEN, os.environ.get("XLA_FLAGS", ""))
    quick = [f"--{name}={str(value).lower()}" for name, value in QUICK.items()]
    os.environ["XLA_FLAGS"] = " ".join([*quick, given])


def ordinary_environment():
    """The environment of a process that compiles as it would outside the tests."""
    return os.environ | {"XLA_FLAGS": os.environ[GIVEN]}
