"""What users hand to `minimise` as a model and a start, as a parametrisation and a vector."""

import inspect
from typing import Any

from .._problem.parametrise import is_module, is_parametrisation, parametrise


def _is_vector(theta0: Any) -> bool:
    return getattr(theta0, "ndim", None) == 1


def takes_params(model: Any) -> bool:
    """Whether a model is a function apply(params, x), or carries one, rather than a parametrisation of theta alone."""
    if is_parametrisation(model):
        return False
    if isinstance(model, tuple) or (hasattr(model, "apply") and hasattr(model, "init")):
        return True
    try:
        parameters = inspect.signature(model).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    several = any(p.kind is p.VAR_POSITIONAL for p in parameters)  # as linen's apply(variables, *args) takes
    return several or sum(p.default is p.empty for p in positional) == 2


def given(D: Any, theta0: Any) -> tuple[Any, Any]:
    """The parametrisation and the start.

    A vector is theta0, and D is a parametrisation. Any other pytree holds the parameters of an `apply(params, x)`.
    Without either, D is a module that carries its own.
    """
    if theta0 is None:
        if not is_module(D):
            raise TypeError(
                "theta0 must be given: the start of a parametrisation, or the parameters of a function "
                "apply(params, x); only a module of equinox or flax nnx carries its own."
            )
        return parametrise(D)
    if not _is_vector(theta0) and takes_params(D):
        return parametrise(D, theta0)
    return D, theta0


def given_again(D: Any, start: Any) -> Any:
    """The parametrisation of a run that goes on from a solution: its parameters are those of `apply(params, x)`."""
    if is_module(D):
        return parametrise(D)[0]
    return parametrise(D, start.params)[0] if takes_params(D) and hasattr(start, "params") else D
