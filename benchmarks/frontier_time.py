"""Problems of frontier.py that evolve from a given start: Burgers, Allen-Cahn, Korteweg-de Vries, Kuramoto-Sivashinsky.

The start is built into the model, and so are periods and symmetries, which the equations keep. In one piece it is
u_0(x) + t N(x, t), or what the reaction makes of that. In slabs of time it is b(x) + N(x, t) - N(x, t_0), with b what
the slabs before end with, whose derivatives at the points are added up: with (t - t_0) N, N would have to undo b
wherever waves have moved on. Errors are those on the grids of frontier_reference.py.
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

ENOUGH = 1e-15
"""The loss at which a run ends; a slab of time leaves the rest of its seconds to the next ones."""


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


def crowded(width, length, n):
    """A Gauss-Legendre rule on (0, length) in the coordinate asinh(x / width), whose points crowd within width of 0."""
    (s, w), end = rule(0.0, n), np.arcsinh(length / width)
    return width * np.sinh(end * s), w * width * end * np.cosh(end * s)


# In one piece: half of the period, by symmetry. -----------------------------------------------------------------------


def burgers(nu, key, name, published, bar, seconds):
    """u is odd and has the period 2, so that it vanishes at the walls and at the layer.

    A shock of height 2 is 2 nu wide. The network sees x and a stretched coordinate, 0 in the layer and 1 at the wall,
    in which the layer is as wide as what is outside; Gauss points are those of the stretched coordinate.
    """
    sizes, nx, instants = (3, 24, 24, 1), 64, ((0.0, 0.25, 0.5, 1.0), (10, 20, 14))
    width, length = 2 * nu, float(np.arcsinh(0.5 / nu))
    ref, layers = reference(key), list(zip(sizes[:-1], sizes[1:], strict=True))
    plain = network(layers)

    def D(theta):
        N = plain(theta)

        def u(p):
            x, t = jnp.abs(p[0]), p[1]
            stretched = jnp.arcsinh(x / width) / length
            inputs = jnp.stack([2 * x - 1, 2 * stretched - 1, 2 * t - 1])
            value = -jnp.sin(PI * x) + t * stretched * (1 - x) * N(inputs)
            return jnp.where(p[0] < 0, -value, value)

        return u

    A = lambda v: lambda p: along(v, T)(p) + v(p) * along(v, X)(p) - nu * along(v, X, X)(p)

    def loss(finer):
        ends, counts = instants
        times = panels(ends, [round(finer * n) for n in counts])
        return riesz.residual(A, 0.0, tensor(crowded(width, 1.0, round(finer * nx)), times))

    def solve(seed):
        clock = Clock(seconds)
        found = clock.minimise(loss(1), D, glorot(layers)(seed), target=ENOUGH)
        return with_error(clock, ref, D, found, loss(FINER))

    setup = f"odd, tanh {'-'.join(map(str, sizes))} of x, asinh(x / 2 nu) and t; {nx} x {sum(instants[1])} Gauss points"
    return Problem(name, published, bar, seconds, solve, setup)


def kink_rounded(nu, x, t):
    r"""What the heat equation has made of the kink of -2 |x - 1| after the time t, less the kink.

    $4 \sqrt{\nu t}\, \mathrm{ierfc}((1 - |x|) / (2 \sqrt{\nu t}))$, the cap of a roof of slopes 2 and -2.
    """
    spread = 2 * jnp.sqrt(nu * jnp.maximum(t, 1e-300))
    z = (1 - jnp.abs(x)) / spread
    return 2 * spread * (jnp.exp(-z * z) / jnp.sqrt(PI) - z * jax.scipy.special.erfc(z))


def reaction(t, w):
    """What u_t = 5 (u - u^3) makes of the value w after the time t."""
    grown = jnp.exp(5 * t)
    return w * grown / jnp.sqrt(1 + w**2 * (grown**2 - 1))


def allen_cahn():
    """u is even and has the period 2, and its start has a kink at the walls, which diffusion rounds off.

    What the reaction alone makes of a value is known, and is built in: u is that of start + t N. The network sees the
    reaction of the start as well, which has a front where u has one.
    """
    nu, sizes, nt = 1e-4, (3, 20, 20, 1), 36
    ref, layers = reference("allen-cahn"), list(zip(sizes[:-1], sizes[1:], strict=True))
    plain = network(layers)

    def D(theta):
        N = plain(theta)

        def u(p):
            x, t = p
            start = x**2 * jnp.cos(PI * x) + kink_rounded(nu, x, t)
            inputs = jnp.stack([jnp.cos(PI * x), reaction(t, start), 2 * t - 1])
            return reaction(t, start + t * N(inputs))

        return u

    A = lambda v: lambda p: along(v, T)(p) - nu * along(v, X, X)(p) - 5 * (v(p) - v(p) ** 3)

    def loss(finer):
        panel = lambda low, high, n: panels((low, high), (round(finer * n),))
        x, w = crowded(0.006, 0.15, round(finer * 22))  # the front at 1/2 becomes as thin
        left, right = (0.5 - x, w), (0.5 + x, w)
        # The kink is at 1.
        rules = panel(0, 0.35, 22), left, right, panel(0.65, 0.9, 14), panel(0.9, 0.98, 12), panel(0.98, 1, 12)
        t, v = rule(0.0, round(finer * nt))
        places = tuple(np.concatenate(parts) for parts in zip(*rules, strict=True))
        return riesz.residual(A, 0.0, tensor(places, (t**2, 2 * t * v)))

    def solve(seed):
        clock = Clock(600.0)
        found = clock.minimise(loss(1), D, glorot(layers)(seed), target=ENOUGH)
        return with_error(clock, ref, D, found, loss(FINER))

    shape = "-".join(map(str, sizes))
    setup = f"even, kink and reaction built in, tanh {shape}; 104 x {nt} Gauss points in panels"
    return Problem("Allen-Cahn", "1.9e-6* (SSBroyden, 2,011 parameters)", 5e-6, 600.0, solve, setup)


# In slabs of time. ----------------------------------------------------------------------------------------------------


@dataclass
class Slabs:
    """A periodic equation u_t + F(u, u_x, ...) = 0, slab by slab.

    All slabs have one length and a time of their own, from -1 to 1, so that they share one compiled program. A point is
    (x, time, b, b_x, b_xx, ...), with b what the slabs before end with.
    """

    low: float
    period: float
    start: Callable
    """u at t = 0, as a function of x."""
    F: Callable
    """Of u and its derivatives in x, as many as `orders` says."""
    orders: int
    end: float
    count: int
    """How many slabs there are between t = 0 and the end."""
    sizes: tuple[int, ...]
    points: tuple[int, int]
    """In x, equispaced, and in t, those of Gauss and Legendre."""

    def __post_init__(self):
        """What all slabs have in common."""
        self.layers = list(zip(self.sizes[:-1], self.sizes[1:], strict=True))
        self.plain = network(self.layers)
        self.value = jax.jit(lambda theta, *over: self.loss(*over)(self.increment(theta)))
        self.added = jax.jit(lambda theta, x: self.derivatives(lambda x: self.increment(theta)(jnp.stack([x, 1.0])), x))

    def derivatives(self, f, x):
        """The values of f and of its derivatives at places x, in columns."""
        columns = [f]
        for _ in range(self.orders):
            columns.append(riesz.derivative(columns[-1]))
        return jax.vmap(lambda x: jnp.stack([f(x) for f in columns]))(x)

    def increment(self, theta):
        """N(x, time) - N(x, -1), which vanishes where the slab begins, of (x, time) and whatever else a point has."""
        N = self.plain(theta)

        def v(p):
            angle = 2 * PI / self.period * p[0]
            at = lambda time: N(jnp.stack([jnp.cos(angle), jnp.sin(angle), time]))
            return at(p[1]) - at(jnp.full_like(angle, -1.0))

        return v

    def equation(self, v):
        """u_t + F(u, u_x, ...) at a point, with u = b + v."""
        x, time = np.eye(3 + self.orders)[:2]

        def image(p):
            slopes = [v, *(along(v, *[x] * order) for order in range(1, self.orders + 1))]
            rate = 2 * self.count / self.end * along(v, time)(p)
            return rate + self.F(*[p[2 + i] + f(p) for i, f in enumerate(slopes)])

        return image

    def continued(self, theta):
        """The parameters with which the network of the next slab goes on in time where this one ends."""
        inputs, width = self.layers[0]
        weights = theta[: inputs * width].reshape(width, inputs)
        return theta.at[inputs * width : inputs * width + width].add(2 * weights[:, -1])

    def places(self, finer=1.0):
        """The places of the points."""
        n = round(finer * self.points[0])
        return self.low + self.period * (np.arange(n) + 0.5) / n

    def over(self, x, before, finer=1.0):
        """The points of a slab and their weights, from the derivatives at x of what the slabs before end with."""
        times, w = rule(-1.0, round(finer * self.points[1]))
        table = np.repeat(np.column_stack([x, before]), times.size, axis=0)
        where = np.insert(table, 1, np.tile(times, x.size), axis=1)
        weights = np.tile(w * self.end / self.count / 2, x.size) * self.period / x.size
        return where, weights

    def loss(self, where, weights):
        """The residual over a slab, at the points and with the weights of `over`."""
        return riesz.residual(self.equation, 0.0, riesz.points(where, weights=weights))

    def function(self, thetas):
        """u on all slabs, of the parameters of all slabs."""
        first = -1.0 - 2.0 * jnp.arange(self.count)

        def u(p):
            time = jnp.clip(first + 2 * self.count / self.end * p[1], -1.0, 1.0)
            added = jax.vmap(lambda theta, time: self.increment(theta)(jnp.stack([p[0], time])))
            return self.start(p[0]) + jnp.sum(added(thetas, time))

        return u


def in_slabs(slabs, key, name, published, bar, seconds):
    """Each slab ends at a loss of ENOUGH, or with an equal share of the budget and what those before it have left.

    A twentieth of the budget is kept, since a run looks at its clock now and then.
    """
    ref, sets = reference(key), [(slabs.places(finer), finer) for finer in (1.0, FINER)]

    def solve(seed):
        clock, thetas, losses, between = Clock(seconds), [], [], []
        theta, before = glorot(slabs.layers)(seed), [slabs.derivatives(slabs.start, x) for x, _ in sets]
        for k in range(slabs.count):
            coarse, fine = (slabs.over(x, b, finer) for (x, finer), b in zip(sets, before, strict=True))
            loss, share = slabs.loss(*coarse), 0.95 * (k + 1) / slabs.count
            found = clock.minimise(loss, slabs.increment, theta, share=share, target=ENOUGH)
            losses.append(float(found.loss))
            between.append(float(slabs.value(found.theta, *fine)))
            thetas.append(found.theta)
            before = [b + slabs.added(found.theta, x) for (x, _), b in zip(sets, before, strict=True)]
            theta = slabs.continued(found.theta)
        known = with_error(clock, ref, lambda _: slabs.function(jnp.stack(thetas)), found, None)
        parameters = known["parameters"] * slabs.count
        return known | {"loss": max(losses), "between": max(between), "parameters": parameters, "slabs": losses}

    n, m = slabs.points
    setup = f"{slabs.count} slabs, periodic, tanh {'-'.join(map(str, slabs.sizes))}; {n} x {m} points in each"
    return Problem(name, published, bar, seconds, solve, setup)


def kdv():
    F = lambda u, u_x, u_xx, u_xxx: u * u_x + 0.022**2 * u_xxx
    slabs = Slabs(-1.0, 2.0, lambda x: jnp.cos(PI * x), F, 3, 1.0, 64, (3, 20, 20, 1), (256, 8))
    published = "8.2e-11* (DSGNAR, four slabs, 1210 s)"
    return in_slabs(slabs, "kdv", "Korteweg-de Vries", published, 1e-6, 900.0)


def kuramoto_sivashinsky():
    F = lambda u, u_x, u_xx, u_xxx, u_xxxx: 100 / 16 * u * u_x + 100 / 16**2 * u_xx + 100 / 16**4 * u_xxxx
    start = lambda x: jnp.cos(x) * (1 + jnp.sin(x))
    slabs = Slabs(0.0, 2 * PI, start, F, 4, 1.0, 20, (3, 20, 20, 1), (256, 8))
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
