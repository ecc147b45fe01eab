"""Problems of frontier.py that evolve from a given start: Burgers, Allen-Cahn, Korteweg-de Vries, Kuramoto-Sivashinsky.

The start is built into the model, and so are periods and symmetries, which the equations keep. In one piece it is
u_0(x) + t N(x, t). In slabs of time it is b(x) + N(x, t) - N(x, t_0), with b what the slabs before end with, whose
derivatives at the points are computed once: with (t - t_0) N, N would have to undo b wherever waves have moved on.
Errors are those on the grids of frontier_reference.py.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from equations import PI, T, X, along, glorot, network, rule
from frontier_problem import Clock, Problem, relative_error
from frontier_reference import reference

import riesz

FINER = 4.5
"""As many times as many points in both directions are twenty times as many."""


def with_error(clock, ref, D, found, between):
    """What is known of a start: its error is that on the whole grid of the reference."""
    t, x = np.meshgrid(ref.t, ref.x, indexing="ij")
    points = jnp.asarray(np.stack([x.ravel(), t.ravel()], -1))
    error = relative_error(D, jnp.asarray(ref.u.ravel()), points)
    return clock.known(found, error, between)


def tensor(places, times):
    """The measure of all pairs of two rules, of nodes and weights each."""
    (x, w), (t, v) = places, times
    return riesz.points(np.stack(np.meshgrid(x, t, indexing="ij"), -1).reshape(-1, 2), weights=np.outer(w, v).ravel())


def panels(ends, counts):
    """Gauss-Legendre rules side by side, of so many points between the ends."""
    rules = [rule(0.0, n) for n in counts]
    lengths = np.diff(ends)
    x = [a + h * x for a, h, (x, _) in zip(ends, lengths, rules, strict=False)]
    return np.concatenate(x), np.concatenate([h * w for h, (_, w) in zip(lengths, rules, strict=True)])


# In one piece: half of the period, by symmetry. -----------------------------------------------------------------------


def burgers(nu, key, name, published, bar, seconds):
    """u is odd and has the period 2, so that it vanishes at the walls and at the layer.

    Points are placed by the residual.
    """
    sizes, n = (3, 20, 20, 1), 8192
    ref, layers = reference(key), list(zip(sizes[:-1], sizes[1:], strict=True))
    plain = network(layers)

    def D(theta):
        N = plain(theta)

        def u(p):
            s, c, t = jnp.sin(PI * p[0]), jnp.cos(PI * p[0]), 2 * p[1] - 1
            return -s + p[1] * (N(jnp.stack([s, c, t])) - N(jnp.stack([-s, c, t])))

        return u

    A = lambda v: lambda p: along(v, T)(p) + v(p) * along(v, X)(p) - nu * along(v, X, X)(p)

    def solve(seed):
        clock, over = Clock(seconds), riesz.adaptive(riesz.sobol((0, 0), (1, 1), n))
        found = clock.minimise(riesz.residual(A, 0.0, over), D, glorot(layers)(seed))
        return with_error(clock, ref, D, found, lambda v: found.between)

    setup = f"odd, tanh {'-'.join(map(str, sizes))}; {n} points, adaptive by the residual"
    return Problem(name, published, bar, seconds, solve, setup)


def kink_rounded(nu, x, t):
    r"""What the heat equation has made of the kink of -2 |x - 1| after the time t, less the kink.

    $4 \sqrt{\nu t}\, \mathrm{ierfc}((1 - |x|) / (2 \sqrt{\nu t}))$, the cap of a roof of slopes 2 and -2.
    """
    spread = 2 * jnp.sqrt(nu * jnp.maximum(t, 1e-300))
    z = (1 - jnp.abs(x)) / spread
    return 2 * spread * (jnp.exp(-z * z) / jnp.sqrt(PI) - z * jax.scipy.special.erfc(z))


def allen_cahn():
    """u is even and has the period 2, and its start has a kink at the walls, which diffusion rounds off."""
    nu, sizes, points = 1e-4, (2, 20, 20, 1), (104, 40)
    ref, layers = reference("allen-cahn"), list(zip(sizes[:-1], sizes[1:], strict=True))
    plain = network(layers)

    def D(theta):
        N = plain(theta)

        def u(p):
            x, t = p
            start = x**2 * jnp.cos(PI * x) + kink_rounded(nu, x, t)
            return start + t * N(jnp.stack([jnp.cos(PI * x), 2 * t - 1]))

        return u

    A = lambda v: lambda p: along(v, T)(p) - nu * along(v, X, X)(p) - 5 * (v(p) - v(p) ** 3)
    # The front is at 1/2, and the kink at 1.
    ends, counts = (0.0, 0.36, 0.64, 0.94, 1.0), (20, 56, 16, 12)
    x = lambda finer: panels(ends, [round(finer * n) for n in counts])
    loss = lambda finer: riesz.residual(A, 0.0, tensor(x(finer), rule(0.0, round(finer * points[1]))))

    def solve(seed):
        clock = Clock(600.0)
        found = clock.minimise(loss(1), D, glorot(layers)(seed))
        return with_error(clock, ref, D, found, loss(FINER))

    setup = f"even, kink built in, tanh {'-'.join(map(str, sizes))}; {points[0]} x {points[1]} Gauss points in panels"
    return Problem("Allen-Cahn", "1.9e-6* (SSBroyden, 2,011 parameters)", 5e-6, 600.0, solve, setup)


# In slabs of time. ----------------------------------------------------------------------------------------------------


@dataclass
class Slabs:
    """A periodic equation u_t + F(u, u_x, ...) = 0, slab by slab."""

    low: float
    period: float
    start: Callable
    """u at t = 0, as a function of x."""
    F: Callable
    """Of u and its derivatives in x, as many as `orders` says."""
    orders: int
    times: np.ndarray
    """Where slabs begin and end."""
    sizes: tuple[int, ...]
    points: tuple[int, int]
    """In x, equispaced, and in t, those of Gauss and Legendre."""

    @property
    def layers(self):
        """The sizes of the layers, in pairs."""
        return list(zip(self.sizes[:-1], self.sizes[1:], strict=True))

    def increment(self, k):
        """N(x, t) - N(x, t_k), which vanishes where the slab begins, of (x, t) and whatever else a point has."""
        t0, t1, plain = self.times[k], self.times[k + 1], network(self.layers)

        def D(theta):
            N = plain(theta)

            def v(p):
                angle = 2 * PI / self.period * p[0]
                at = lambda time: N(jnp.stack([jnp.cos(angle), jnp.sin(angle), time]))
                return at(2 * (p[1] - t0) / (t1 - t0) - 1) - at(jnp.full_like(angle, -1.0))

            return v

        return D

    def continued(self, theta):
        """The parameters with which the network of the next slab goes on in time where this one ends."""
        inputs, width = self.layers[0]
        weights = theta[: inputs * width].reshape(width, inputs)
        return theta.at[inputs * width : inputs * width + width].add(2 * weights[:, -1])

    def before(self, thetas):
        """u at the end of the slabs whose parameters are given, as a function of x."""
        ends = [self.increment(k)(theta) for k, theta in enumerate(thetas)]
        return lambda x: self.start(x) + sum(v(jnp.stack([x, self.times[k + 1]])) for k, v in enumerate(ends))

    def loss(self, thetas, finer=1.0):
        """The residual over the next slab; points are (x, t, b, b_x, b_xx, ...) with b what `before` gives."""
        k, b = len(thetas), self.before(thetas)
        n, m = (round(finer * count) for count in self.points)
        x = self.low + self.period * (np.arange(n) + 0.5) / n
        columns: list[Callable] = [b]
        for _ in range(self.orders):
            columns.append(riesz.derivative(columns[-1]))
        table = np.asarray(jax.jit(jax.vmap(lambda x: jnp.stack([x, *[f(x) for f in columns]])))(jnp.asarray(x)))
        (s, w), (t0, t1) = rule(0.0, m), self.times[k : k + 2]
        where = np.repeat(table, m, axis=0)
        where = np.insert(where, 1, np.tile(t0 + (t1 - t0) * s, n), axis=1)
        over = riesz.points(where, weights=np.tile(w * (t1 - t0), n) * self.period / n)
        along_x, along_t = np.eye(where.shape[1])[:2]

        def A(v):
            def image(p):
                slopes = [v, *(along(v, *[along_x] * order) for order in range(1, self.orders + 1))]
                return along(v, along_t)(p) + self.F(*[p[2 + i] + f(p) for i, f in enumerate(slopes)])

            return image

        return riesz.residual(A, 0.0, over)

    def function(self, thetas):
        """u on all slabs."""

        def u(p):
            value = self.start(p[0])
            for k, theta in enumerate(thetas):
                v = self.increment(k)(theta)
                here = v(jnp.stack([p[0], jnp.clip(p[1], self.times[k], self.times[k + 1])]))
                value = value + here
            return value

        return u


def in_slabs(slabs, key, name, published, bar, seconds):
    """Each slab has an equal share of the budget, and what those before it have left."""
    ref, count = reference(key), len(slabs.times) - 1

    def solve(seed):
        clock, thetas, losses, finer, theta, found = Clock(seconds), [], [], [], glorot(slabs.layers)(seed), None
        for k in range(count):
            loss = slabs.loss(thetas)
            found = clock.minimise(loss, slabs.increment(k), theta, share=(k + 1) / count)
            losses.append(float(found.loss))
            finer.append(float(slabs.loss(thetas, FINER)(found.function)))
            thetas.append(found.theta)
            theta = slabs.continued(found.theta)
        D = lambda _: slabs.function(thetas)
        known = with_error(clock, ref, D, found, None)
        parameters = known["parameters"] * count
        return known | {"loss": max(losses), "between": max(finer), "parameters": parameters, "slabs": losses}

    n, m = slabs.points
    setup = f"{count} slabs, periodic, tanh {'-'.join(map(str, slabs.sizes))}; {n} x {m} points in each"
    return Problem(name, published, bar, seconds, solve, setup)


def kdv():
    F = lambda u, u_x, u_xx, u_xxx: u * u_x + 0.022**2 * u_xxx
    slabs = Slabs(-1.0, 2.0, lambda x: jnp.cos(PI * x), F, 3, np.linspace(0, 1, 5), (3, 20, 20, 1), (128, 28))
    published = "8.2e-11* (DSGNAR, four slabs, 1210 s)"
    return in_slabs(slabs, "kdv", "Korteweg-de Vries", published, 1e-6, 900.0)


def kuramoto_sivashinsky():
    F = lambda u, u_x, u_xx, u_xxx, u_xxxx: 100 / 16 * u * u_x + 100 / 16**2 * u_xx + 100 / 16**4 * u_xxxx
    start = lambda x: jnp.cos(x) * (1 + jnp.sin(x))
    slabs = Slabs(0.0, 2 * PI, start, F, 4, np.linspace(0, 1, 9), (3, 20, 20, 1), (128, 24))
    published = "5.1e-7* (DSGNAR, eight slabs, 5227 s)"
    return in_slabs(slabs, "kuramoto-sivashinsky", "Kuramoto-Sivashinsky", published, np.inf, 1800.0)


PROBLEMS = {
    "burgers": lambda: burgers(
        0.01 / PI, "burgers", "Burgers, nu = 0.01/pi", "8.3e-9* (SSBroyden, 2,011 parameters)", 1e-6, 600.0
    ),
    "burgers-0.01": lambda: burgers(
        0.01, "burgers-0.01", "Burgers, nu = 0.01", "8.0e-14 (DSGNAR, 346 s)", np.inf, 600.0
    ),
    "allen-cahn": allen_cahn,
    "kdv": kdv,
    "kuramoto-sivashinsky": kuramoto_sivashinsky,
}
