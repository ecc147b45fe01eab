"""`elliptic_error`: how far a function is from the solution of a linear elliptic equation, from its residual alone."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import _check
from .._problem.elliptic import Elliptic, Known, at_points, scalar
from .._problem.jumps import jumps
from .._problem.lifting import inward, lift
from .._problem.measures import Box, Points, box
from .._problem.operators import gradient
from .._problem.residual_bounds import Inside, Norms, Pair, Rule, rule_on
from .._problem.sines import Sines
from .._problem.stability import stability
from .._types import Function

COUNTS = {1: 800, 2: 96, 3: 32}
"""The points per dimension; in more than three dimensions there are 2^14 in all."""

KINKS = (
    "There is no bound: the derivatives of v, or a, jump, and what happens at the jumps is not in the residual between "
    "them."
)
ELSEWHERE = (
    "The energy norm has no bound, because v does not have the values g, and only on a box of at most three dimensions "
    "these are carried inside."
)
TORN = "The energy norm has no bound, because g jumps on the boundary."
COARSE = "The residual differs by more than a tenth between two rules: give more points by n."


class Bound(eqx.Module):
    """How far v is at most from the solution u, and what that assumes; `str(bound)` says it in a sentence."""

    l2: float
    r"""$\|u - v\|_{L2}$ is at most this."""
    energy: float
    r"""$(\int \nabla e \cdot a \nabla e + c\, e^2)^{1/2}$ with e = u - v is at most this; infinite where v does not
    have the values g and these cannot be carried inside."""
    sup: float
    """|u - v| is at most this at every point."""
    residual: float
    """The L2 norm of the residual."""
    mismatch: float
    """The largest |g - v| on the boundary."""
    lowest: tuple[float, float]
    """The lowest eigenvalue of a, and the lowest c."""
    points: int
    """At how many points of the domain this was looked at."""
    notes: tuple[str, ...] = eqx.field(static=True, default=())
    """What should be known beside it, in sentences."""

    def __repr__(self) -> str:
        return f"Bound(l2={self.l2:.3g}, energy={self.energy:.3g}, sup={self.sup:.3g})"

    def __str__(self) -> str:
        a, c = self.lowest
        bounds = (
            f"|u - v| is at most {self.l2:.3g} in L2, {self.energy:.3g} in the energy norm and {self.sup:.3g} at every "
            f"point, if a >= {a:.3g}, c >= {c:.3g}, and the residual between {self.points} points is as it is there."
        )
        return " ".join([bounds, *self.notes])


def elliptic_error(
    v: Function,
    a: Any,
    f: Any,
    low: Any,
    high: Any,
    g: Any = 0.0,
    c: Any = 0.0,
    *,
    n: int | None = None,
    over: tuple[Points, Points] | None = None,
    sides: Any = None,
) -> Bound:
    r"""Bounds of the error u - v, where $-\nabla\cdot(a \nabla u) + c\, u = f$ and u = g on the boundary.

    They come from the residual $r = f + \nabla\cdot(a \nabla v) - c\, v$ and from g - v on the boundary, by known
    constants, and need no other solution. Integrals are taken by two rules of different points, and the difference
    between them is added. v must have the derivatives that r takes: where they jump, as in a network of relu, bounds
    are infinite and a note says so.

    **Arguments:**

    - `v`: the function, such as `solution.function`.
    - `a`: a positive number, a function of a point, or a symmetric positive definite matrix or function of matrices.
    - `f`, `g`, `c`: numbers or functions; c is at least 0, g is continuous and looked at on the boundary alone.
    - `low`, `high`: the corners of the box that is the domain, or that holds it; numbers for scalar points.
    - `n`: the number of points per dimension; in more than three dimensions, of points in all.
    - `over`, `sides`: for another domain, two measures on it, the finer one first, whose weights sum to its volume;
      and points on its boundary.

    ```python
    u = lambda x: jnp.sin(jnp.pi * x)
    v = lambda x: u(x) + 1e-3 * x * (1 - x)
    bound = riesz.elliptic_error(v, 1.0, lambda x: jnp.pi**2 * u(x), 0.0, 1.0)
    bound.l2, bound.energy, bound.sup, str(bound)
    ```
    """
    domain, v = box(low, high), scalar(_check.function("v", v))
    equation, b = _equation(a, c, f), _mismatch(g, v)
    rules = _rules(domain, n, over, sides)
    known = at_points(equation.known(v), rules[0].inside.x, rules[1].inside.x)
    lowest = _checked(known, rules)
    constants = equation.constants(domain)
    below = constants or (jnp.full(domain.low.size, lowest[0]), jnp.asarray(lowest[1]))
    inside = Inside(
        rules,
        stability(domain, rules[0].volume, *below, constants is not None),
        Sines(domain, *below, rules[1].axes[0].size // 3) if rules[1].axes else None,
        constants is not None,
    )
    r = known[0].residual, known[1].residual
    bare = inside(r)
    missed = inside.largest(at_points(b, rules[0].sides, rules[1].sides))
    if not jnp.isfinite(missed):
        raise ValueError("g - v must be finite on the boundary, but it is not.")
    exact = missed <= 64 * jnp.finfo(missed.dtype).eps * jnp.max(jnp.abs(known[0].value))
    # The part of the error that solves the equation without a source is largest on the boundary.
    norms = bare.plus(jnp.sqrt(rules[0].volume) * missed, jnp.where(exact, 0.0, jnp.inf), missed)
    notes = []
    if not exact:
        carried, note = _carried(equation, b, missed, domain, inside, r)
        norms, notes = (norms, [note]) if carried is None else (norms.at_most(carried), [])
    norms = norms.plus(*_rounding(known[0], inside))
    if over is None and jumps(domain, (rules[0].inside, rules[1].inside), known, bare.energy):
        norms, notes = Norms(*map(jnp.asarray, (np.inf,) * 3)), [KINKS]
    if abs(rules[0].norm(r[0]) - rules[1].norm(r[1])) > 0.1 * rules[0].norm(r[0]):
        notes = [*notes, COARSE]
    l2, energy, sup = map(float, norms)
    count = rules[0].inside.weights.size
    return Bound(l2, energy, sup, float(inside.norm(r)), float(missed), lowest, count, tuple(notes))


def _rounding(known: Known, inside: Inside) -> tuple[jax.Array, jax.Array, jax.Array]:
    """What the values and slopes of v are not known to, because they are computed."""
    eps, largest = 4 * jnp.finfo(known.value.dtype).eps, jnp.max(jnp.abs(known.value))
    square = jnp.sum(known.flux**2, axis=1) / known.a + known.c * known.value**2
    return eps * jnp.sqrt(inside.rules[0].volume) * largest, eps * inside.rules[0].norm(jnp.sqrt(square)), eps * largest


def _carried(
    equation: Elliptic, b: Function, missed: jax.Array, domain: Box, inside: Inside, r: Pair
) -> tuple[Norms | None, str]:
    """The bounds by way of v + w, where w carries the mismatch b into the box; None where it cannot, and why."""
    if inside.sines is None:
        return None, ELSEWHERE
    w = lift(b, domain)
    (tear,) = at_points(lambda x: w(inward(x, domain)) - b(x), inside.rules[0].sides)
    if jnp.max(jnp.abs(tear)) > 0.01 * missed:
        return None, TORN

    def parts(x: jax.Array) -> tuple[jax.Array, ...]:
        value, slope = w(x), gradient(w)(x).reshape(-1)
        energy = slope @ equation.flux(w)(x).reshape(-1) + equation.number("c", x) * value**2
        return equation(w)(x), value, jnp.sqrt(energy)

    fine, coarse = at_points(parts, *(rule.inside.x for rule in inside.rules))
    image, value, energy = zip(fine, coarse, strict=True)
    left = inside((r[0] - image[0], r[1] - image[1]))
    return left.plus(inside.norm(value), inside.norm(energy), inside.largest(value)), ""


def _mismatch(g: Any, v: Function) -> Function:
    """g - v."""
    if not callable(g):
        number = _check.scalar("g", g)
        return lambda x: number - v(x)

    def b(x: Any) -> Any:
        with _check.explained(f"g must be a function of a point, but it fails at shape {x.shape}"):
            value = jnp.asarray(g(x))
        if value.size != 1:
            raise _check.Mismatch(f"g must give a number at every point, but its shape is {value.shape}.")
        return value.reshape(()) - v(x)

    return b


def _equation(a: Any, c: Any, f: Any) -> Elliptic:
    """The equation, with numbers checked."""
    if not callable(a):
        _check.number("a", a)
        if jnp.ndim(a) == 0:
            _check.scalar("a", a, above=0.0)
    for name, part, bounds in (("f", f, {}), ("c", c, {"least": 0.0})):
        if not callable(part):
            _check.scalar(name, part, **bounds)
    return Elliptic(*(part if callable(part) else jnp.asarray(part, float) for part in (a, c, f)))


def _rules(domain: Box, n: int | None, over: Any, sides: Any) -> tuple[Rule, Rule]:
    """Two rules of different points, the finer one first."""
    if over is None:
        if sides is not None:
            raise ValueError("over must be given where sides is: the points inside a domain that is no box.")
        n = COUNTS.get(domain.low.size, 2**14) if n is None else _check.count("n", n, least=8)
        return rule_on(domain, n, 0), rule_on(domain, 3 * n // 4, 1)
    if n is not None:
        raise ValueError("n must be None where over says which points are taken.")
    if not (isinstance(over, tuple) and len(over) == 2 and all(isinstance(each, Points) for each in over)):
        raise TypeError(
            "over must be two measures of fixed points, such as riesz.points(x, weights=w), the finer first."
        )
    if sides is None:
        raise ValueError("sides must be given where over is: points on the boundary of the domain.")
    sides = _check.floating("sides", sides)
    shapes = {each.x.shape[1:] for each in over} | {sides.shape[1:]}
    if shapes != {domain.low.shape} or sides.shape[0] == 0:
        raise ValueError(f"over and sides must hold points of shape {domain.low.shape}, as low has, not {shapes}.")
    if not all(bool(jnp.all((domain.low[None] <= x) & (x <= domain.high[None]))) for x in (over[0].x, over[1].x)):
        raise ValueError("over must lie between low and high, the corners of a box that holds the domain.")
    return Rule(over[0], sides), Rule(over[1], sides)


def _checked(known: tuple[Known, Known], rules: tuple[Rule, Rule]) -> tuple[float, float]:
    """The lowest a and c at the points; refused where there is no bound."""
    for each, rule in zip(known, rules, strict=True):
        here = lambda wrong, rule=rule: np.asarray(rule.inside.x)[int(np.argmax(np.asarray(wrong)))]
        for name, wrong, rule_of in (
            ("a", ~(each.a > 0), "positive, symmetric where it is a matrix"),
            ("c", ~(each.c >= 0), "at least 0"),
            ("the residual", ~jnp.isfinite(each.residual), "finite"),
        ):
            if bool(jnp.any(wrong)):
                raise ValueError(f"{name} must be {rule_of}, but at the point {here(wrong)} it is not.")
    return float(min(jnp.min(each.a) for each in known)), float(min(jnp.min(each.c) for each in known))
