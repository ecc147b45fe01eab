"""Points that go where they are needed: fixed, until a look between them asks for others."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from ... import _check
from ._domain import AbstractDomain
from ._points import AbstractMeasure, Points

CANDIDATES = 30
"""New points are chosen among this many times as many uniform ones."""
LAWS = ("residual", "christoffel", "uniform")
"""By what points may be drawn."""
UNIFORM = 0.5
"""The share of points drawn uniformly where only one other law is named: weights are at most 1/UNIFORM uniform ones."""
CUTOFF = 1e-8
"""Tangent directions shorter than this share of the longest one have no leverage."""


class Adaptive(AbstractMeasure):
    """As many points of a domain as another measure has, which `replaced` chooses anew by what is known at theta."""

    over: AbstractMeasure
    """Whose domain it is, and how many points there are."""
    shares: dict[str, jax.Array]
    """By which share of the points each law decides; they sum to one."""
    current: Points
    """The points as they are."""
    seed: int = eqx.field(static=True)
    drawn: ClassVar[bool] = False
    adapts: ClassVar[bool] = True

    @property
    def domain(self) -> AbstractDomain | None:
        return self.over.domain

    def draw(self, key: Any = None, at: Any = None) -> Points:
        return self.current.draw()

    def replaced(self, step: Any, at: Any) -> Points:
        r"""New points, independent of where the old ones are.

        Of $N$ uniform candidates $x_j$, point j is taken with the probability $p_j$, which is the mean of the laws by
        their shares, and has the weight $|\Omega| / (N n\, p_j)$, so that integrals remain unbiased. The n draws are
        systematic: one for each n-th part of the cumulated law.
        """
        n, domain = self.current.x.shape[0], self.domain
        assert domain is not None
        keys = jax.random.split(jax.random.fold_in(jax.random.key(self.seed), step), CANDIDATES + 1)
        batches = jax.vmap(lambda key: domain.uniform(key, n))(keys[1:])
        law = jnp.sum(jnp.stack([share * self._law(name, batches, at) for name, share in self.shares.items()]), axis=0)
        law = law / jnp.sum(law)
        cumulated = jnp.cumsum(law)
        places = (jnp.arange(n) + jax.random.uniform(keys[0], (), law.dtype)) / n
        chosen = jnp.minimum(jnp.searchsorted(cumulated, places), law.size - 1)
        x = batches.reshape(-1, *batches.shape[2:])[chosen]
        weights = domain.volume / (law.size * n * law[chosen])
        return Points(x, weights.astype(self.current.weights.dtype), None)

    def _law(self, name: str, batches: jax.Array, at: Any) -> jax.Array:
        """The probabilities of all candidates by one law; uniform ones where it says nothing."""
        count = batches.shape[0] * batches.shape[1]
        if name == "uniform":
            return jnp.full(count, 1 / count, batches.dtype)
        score = at.residual if name == "residual" else _leverage(self.current, at)
        # One batch after another, so that it takes no more memory than a step.
        scores = jax.lax.map(score, batches).reshape(-1)
        total = jnp.sum(scores)
        return jnp.where((total > 0) & jnp.isfinite(total), scores / total, 1 / count)


def _leverage(current: Points, at: Any) -> Callable[[jax.Array], jax.Array]:
    """How much tangent functions of unit norm on the current points can be at others, squared."""
    rows = at.features(current.x)
    m, p, d = rows.shape
    R = jnp.linalg.qr((jnp.sqrt(current.weights)[:, None, None] * rows).reshape(m * p, d), mode="r")
    _, s, Vt = jnp.linalg.svd(R, full_matrices=False)
    kept = s > CUTOFF * jnp.max(s, initial=0)
    to_basis = Vt.T * jnp.where(kept, 1 / jnp.where(kept, s, 1), 0)[None, :]
    return lambda x: jnp.sum((at.features(x) @ to_basis) ** 2, axis=(1, 2))


def adaptive(over: AbstractMeasure, by: str | dict[str, float] = "residual", seed: int = 0) -> Adaptive:
    r"""Points that go where they are needed, with weights that keep integrals unbiased.

    They begin as the points of `over`, and stay fixed, so that `riesz.auto()` keeps its digits. Now and then `minimise`
    looks between them; where the loss there is far above the loss at the points, as many new ones are drawn, by
    what is known at the current parameters, and the run goes on. `solution.theta` is the best since then.

    **Arguments:**

    - `over`: a measure on a domain, such as `riesz.sobol` or `riesz.monte_carlo`, whose number of points is kept.
    - `by`: the law of the points. `"residual"`: half of them by the size of the residual |A v - f|, half uniformly;
      `"christoffel"`: half by their leverage in the tangent space; `"uniform"`: all uniformly. Or shares that sum to
      one, such as `{"residual": 0.4, "christoffel": 0.4, "uniform": 0.2}`; no weight is more than that of uniform
      points divided by the share of `"uniform"`.
    - `seed`: of the draws.

    ```python
    loss = riesz.residual(burgers, 0.0, riesz.adaptive(riesz.sobol((-1, 0), (1, 1), 4096)))
    ```
    """
    _check.kind("over", over, AbstractMeasure, "a measure on a domain, such as riesz.sobol((0, 0), (1, 1), 1000)")
    if over.domain is None:
        raise ValueError(
            "over must be a measure on a domain, such as riesz.sobol((0, 0), (1, 1), 1000): given points have none."
        )
    seed = _check.count("seed", seed, least=0)
    _check.kind("by", by, str | dict, f"one of {', '.join(map(repr, LAWS))}, or a dictionary of their shares")
    if isinstance(by, str):
        by = {"uniform": 1.0} if by == "uniform" else {by: 1 - UNIFORM, "uniform": UNIFORM}
    unknown = [name for name in by if name not in LAWS]
    if unknown:
        raise ValueError(f"by must be made of {', '.join(map(repr, LAWS))}, not {_check.shown(unknown[0])}.")
    shares = {name: _check.leaf(_check.scalar(f"by[{name!r}]", share, least=0.0)) for name, share in by.items()}
    if abs(sum(float(share) for share in shares.values()) - 1) > 1e-6:
        raise ValueError(f"the shares in by must sum to 1, but they sum to {sum(map(float, shares.values())):.6g}.")
    current = over if isinstance(over, Points) else over.fresh(jax.random.key(seed))
    assert current is not None
    return Adaptive(over, shares, current.draw(), seed)
