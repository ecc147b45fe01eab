"""Problems of frontier.py with smooth solutions in closed form, and Laplace's equation on an L with its corner."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from equations import equation
from frontier_problem import Clock, Problem, relative_error
from jax.flatten_util import ravel_pytree

import riesz

PI = np.pi
MANY = 4000
"""The number of points at which errors are measured, uniform."""


def uniform(low, high, n=MANY):
    """Points at which errors are measured."""
    low, high = np.asarray(low), np.asarray(high)
    return jnp.asarray(low + (high - low) * np.random.default_rng(1).random((n, low.size)))


def equispaced(low, high, n):
    """The rule of midpoints, which is exact on an interval of period high - low as far as n points can tell."""
    length = high - low
    return riesz.points(low + length * (np.arange(n) + 0.5) / n, weights=np.full(n, length / n))


def sine_network(key, sizes, frequency):
    """A network of sines whose first layer starts with weights of size `frequency`, one per input or one for all."""
    weights, biases, rest = jax.random.split(key, 3)
    D, theta0 = riesz.mlp(rest, sizes, activation="sin", init="lecun")
    first = lambda params: (params.weights[0], params.biases[0])
    drawn = (
        jnp.broadcast_to(jnp.asarray(frequency, float), sizes[0]) * jax.random.normal(weights, (sizes[1], sizes[0])),
        jax.random.uniform(biases, (sizes[1],), minval=-PI, maxval=PI),
    )
    return D, ravel_pytree(eqx.tree_at(first, D.params(theta0), drawn))[0]


def one_run(loss, model, exact, test, seconds):
    """How one run solves a problem: `loss(density)` has so many times the points, `model(key)` gives D and theta0."""

    def solve(seed):
        clock, (D, theta0) = Clock(seconds), model(jax.random.key(seed))
        found = clock.minimise(loss(1), D, theta0)
        return clock.known(found, relative_error(D, exact, test), loss(20))

    return solve


# Those of benchmarks/equations.py, with tanh networks and soft boundary conditions. -----------------------------------


def of_equations(name, known, published, bar, seconds, setup):
    made = equation(name)

    def solve(seed):
        clock = Clock(seconds)
        found = clock.minimise(made.loss, made.D, made.start(seed))
        return clock.known(found, made.error, equation(name, finer=5).loss)

    return Problem(known, published, bar, seconds, solve, setup)


def poisson_2d():
    setup = "tanh 2-64-1; 32 x 32 Gauss points, 64 on each side"
    return of_equations("poisson", "Poisson 2d", "1.2e-7 (ENGD)", 1e-12, 120.0, setup)


def heat():
    setup = "tanh 2-64-1; 32 x 32 Gauss points, 64 on each side"
    return of_equations("heat", "heat 1+1d", "8.8e-8 (ENGD)", 1e-11, 120.0, setup)


def helmholtz_soft():
    setup = "tanh 2-20-20-1; 40 x 40 Gauss points, 40 on each side, times 100"
    return of_equations("helmholtz", "Helmholtz (1, 4), soft boundary", "2.0e-9 (DSGNAR)*", 1e-8, 120.0, setup)


# The heat equation in four dimensions. --------------------------------------------------------------------------------


def heat_4d():
    exact = lambda x: jnp.exp(-x[4]) * jnp.sum(jnp.sin(2 * x[:4]))
    cooling = riesz.spatial(riesz.laplacian)
    operator = lambda v: lambda x: riesz.partial(4)(v)(x) - cooling(v)(x) / 4

    def loss(density):
        inside = riesz.sobol((0.0,) * 5, (1.0,) * 5, 1500 * density)
        start = np.asarray(riesz.sobol((0.0,) * 4, (1.0,) * 4, 300 * density, seed=1).x)
        walls = np.asarray(riesz.sobol((0.0,) * 5, (1.0,) * 5, 800 * density, seed=2).x).copy()
        side = np.arange(len(walls))
        walls[side, side // 2 % 4] = side % 2
        edge = riesz.points(np.concatenate([np.insert(start, 4, 0.0, axis=1), walls]))
        return riesz.residual(operator, 0.0, inside) + riesz.residual(riesz.identity, exact, edge)

    model = lambda key: riesz.mlp(key, (5, 64, 1), init="glorot")
    setup = "tanh 5-64-1; 1500 Sobol points, 1100 on start and walls"
    solve = one_run(loss, model, exact, uniform((0,) * 5, (1,) * 5), 200.0)
    return Problem("heat 4+1d", "3.9e-7 (ENGD)", 5e-8, 200.0, solve, setup)


# Helmholtz' equation, Laplace u + u = q on (-1, 1)^2. ----------------------------------------------------------------


def helmholtz_periodic():
    exact = lambda x: jnp.sin(PI * x[0]) * jnp.sin(4 * PI * x[1])
    source = lambda x: (1 - 17 * PI**2) * exact(x)
    operator = lambda v: lambda x: riesz.laplacian(v)(x) + v(x)

    def loss(density):
        side = equispaced(-1.0, 1.0, round(64 * density**0.5))
        return riesz.residual(operator, source, riesz.product(side, side))

    def model(key):
        network, theta0 = riesz.mlp(key, (4, 20, 20, 1), activation="sin", init="glorot")
        return riesz.periodic(network, (2.0, 2.0)), theta0

    setup = "sine 4-20-20-1, periodic; 64 x 64 equispaced points"
    # The clock is looked at between chunks of 32 steps, so that 40 seconds may become nearly 60.
    solve = one_run(loss, model, exact, uniform((-1, -1), (1, 1)), 40.0)
    return Problem("Helmholtz (1, 4), periodic", "2.0e-9 (DSGNAR)*", 1e-12, 60.0, solve, setup)


def helmholtz_66():
    """With a soft boundary. One hidden layer of sines contains the solution, the difference of two plane waves."""
    exact = lambda x: jnp.sin(6 * PI * x[0]) * jnp.sin(6 * PI * x[1])
    source = lambda x: (1 - 72 * PI**2) * exact(x)
    operator = lambda v: lambda x: riesz.laplacian(v)(x) + v(x)
    low, high = (-1.0, -1.0), (1.0, 1.0)

    def loss(density):
        n = round(44 * density**0.5)
        inside = riesz.residual(operator, source, riesz.gauss_legendre(low, high, n))
        return inside + 100.0 * riesz.residual(riesz.identity, 0.0, riesz.boundary(low, high, n))

    model = lambda key: sine_network(key, (2, 80, 1), 15.0)
    setup = "sine 2-80-1, first weights 15; 44 x 44 Gauss points, 44 on each side, times 100"
    solve = one_run(loss, model, exact, uniform(low, high), 600.0)
    return Problem("Helmholtz (6, 6)", "solved through (2, 2), (4, 4), (6, 6) (DSGNAR)", 1e-6, 600.0, solve, setup)


# Waves. ---------------------------------------------------------------------------------------------------------------


def waves(x):
    return jnp.sin(PI * x[0]) * jnp.cos(2 * PI * x[1]) + jnp.sin(4 * PI * x[0]) * jnp.cos(8 * PI * x[1]) / 2


def wave_operator(v):
    return lambda x: riesz.partial(1, 1)(v)(x) - 4 * riesz.partial(0, 0)(v)(x)


PUBLISHED_WAVE = "1.2e-15 in two slabs (DSGNAR)*, 6.7e-6 in one piece*"


def wave():
    """In one piece, all conditions soft. One hidden layer of sines contains the solution, four plane waves."""

    def loss(density):
        n = round(40 * density**0.5)
        side = riesz.gauss_legendre(0.0, 1.0, n)
        begin = riesz.product(side, riesz.points(jnp.zeros(1)))
        walls = riesz.product(riesz.points(jnp.array([0.0, 1.0]), weights=jnp.ones(2)), side)
        inside = riesz.residual(wave_operator, 0.0, riesz.product(side, side))
        start = riesz.residual(riesz.identity, waves, begin) + riesz.residual(riesz.partial(1), 0.0, begin)
        return inside + 100.0 * (start + riesz.residual(riesz.identity, 0.0, walls))

    model = lambda key: sine_network(key, (2, 80, 1), (8.0, 16.0))
    setup = "sine 2-80-1, first weights (8, 16); 40 x 40 Gauss points, 160 on start and walls, times 100"
    solve = one_run(loss, model, waves, uniform((0, 0), (1, 1)), 600.0)
    return Problem("wave, in one piece", PUBLISHED_WAVE, 1e-9, 600.0, solve, setup)


def wave_in_slabs():
    """In two slabs of time, each with a network of its own; values and speeds are handed on by the model's lift."""
    at, half, seconds = lambda x, t: jnp.stack([x[0], jnp.asarray(t)]), 0.5, 600.0

    def loss(density, begin):
        x = equispaced(0.0, 1.0, round(24 * density**0.5))
        t = riesz.gauss_legendre(begin, begin + half, round(36 * density**0.5))
        return riesz.residual(wave_operator, 0.0, riesz.product(x, t))

    def slab(network, begin, before):
        """Odd at both walls, as reflection has it; in the time of its slab the network sees t from 0 to 1."""
        speed = riesz.partial(1)(before)
        lift = lambda x: before(at(x, begin)) + (x[1] - begin) * speed(at(x, begin))
        inner = lambda x: jnp.stack([jnp.cos(PI * x[0]), (x[1] - begin) / half])
        bubble = lambda x: (x[1] - begin) ** 2 * jnp.sin(PI * x[0])
        return riesz.hard_boundary(lambda theta: lambda x: network(theta)(inner(x)), bubble, lift)

    def solve(seed):
        network, theta = riesz.mlp(jax.random.key(seed), (2, 20, 20, 1), init="glorot")
        clock, parts, found, between = Clock(seconds), [], [], 0.0
        before = lambda x: jnp.sin(PI * x[0]) + jnp.sin(4 * PI * x[0]) / 2  # at rest
        for k in range(2):
            D = slab(network, k * half, before)
            found.append(clock.minimise(loss(1, k * half), D, theta, share=(k + 1) / 2))
            before, theta = D(found[-1].theta), found[-1].theta
            between += float(loss(20, k * half)(before))
            parts.append(before)
        whole = lambda theta: lambda x: jnp.where(x[1] < half, parts[0](x), parts[1](x))
        known = clock.known(found[-1], relative_error(whole, waves, uniform((0, 0), (1, 1))))
        sizes = {"parameters": 2 * theta.size, "loss": float(sum(part.loss for part in found)), "between": between}
        return {**known, **sizes}

    setup = "two slabs of tanh 2-20-20-1 of (cos pi x, t), odd at the walls; 24 x 36 points in each"
    return Problem("wave, in two slabs", PUBLISHED_WAVE, 1e-9, seconds, solve, setup)


def convection():
    beta = 30.0
    exact = lambda x: jnp.sin(x[0] - beta * x[1])
    operator = lambda v: lambda x: riesz.partial(1)(v)(x) + beta * riesz.partial(0)(v)(x)

    def loss(density):
        x = equispaced(0.0, 2 * PI, round(40 * density**0.5))
        return riesz.residual(operator, 0.0, riesz.product(x, riesz.gauss_legendre(0.0, 1.0, round(64 * density**0.5))))

    def model(key):
        network, theta0 = sine_network(key, (3, 20, 20, 1), (1.0, 1.0, beta / 2))
        D = riesz.periodic(network, (2 * PI, None))
        return riesz.hard_boundary(D, lambda x: x[1], lift=lambda x: jnp.sin(x[0])), theta0

    setup = "sine 3-20-20-1, periodic, first weights (1, 1, 15), start built in; 40 x 64 points"
    solve = one_run(loss, model, exact, uniform((0, 0), (2 * PI, 1)), 120.0)
    return Problem("convection, beta = 30", "none found", 1e-9, 120.0, solve, setup)


# Kovasznay's flow. ----------------------------------------------------------------------------------------------------


def kovasznay():
    """Navier-Stokes at Re = 40 on (-0.5, 1) x (-0.5, 1.5), periodic in y; v and p are given at both ends, to fix p."""
    reynolds = 40.0
    rate = reynolds / 2 - np.sqrt(reynolds**2 / 4 + 4 * PI**2)
    low, high = (-0.5, -0.5), (1.0, 1.5)

    def exact(x):
        wake, angle = jnp.exp(rate * x[0]), 2 * PI * x[1]
        velocity = [1 - wake * jnp.cos(angle), rate / (2 * PI) * wake * jnp.sin(angle)]
        return jnp.stack([*velocity, (1 - jnp.exp(2 * rate * x[0])) / 2])

    def operator(v):
        def balance(x):
            z, slopes = v(x), riesz.gradient(v)(x)
            curved = riesz.laplacian(lambda x: v(x)[:2])(x)
            momentum = slopes[:2] @ z[:2] + slopes[2] - curved / reynolds
            return jnp.append(momentum, slopes[0, 0] + slopes[1, 1])

        return balance

    def loss(density):
        x = riesz.gauss_legendre(low[0], high[0], round(20 * density**0.5))
        y = equispaced(low[1], high[1], round(32 * density**0.5))
        ends = riesz.product(riesz.points(jnp.array([low[0], high[0]]), weights=jnp.ones(2)), y)
        return riesz.residual(operator, 0.0, riesz.product(x, y)) + riesz.residual(riesz.identity, exact, ends)

    def model(key):
        network, theta0 = riesz.mlp(key, (3, 16, 16, 3), init="glorot")
        return riesz.periodic(network, (None, high[1] - low[1])), theta0

    setup = "tanh 3-16-16-3, periodic in y; 20 x 32 points, 32 at each end"
    solve = one_run(loss, model, exact, uniform(low, high), 120.0)
    return Problem("Kovasznay, Re = 40", '"close to single precision"', 1e-10, 120.0, solve, setup)


# Poisson's equation in many dimensions, by tensor trains. -------------------------------------------------------------


def train(n, rank, inner, outer, known, published, bar, seconds):
    """As benchmarks/tensor_train.py has it; a seed chooses the points too."""
    low, high = (0.0,) * n, (1.0,) * n
    exact = (lambda x: jnp.sum(x[::2] * x[1::2])) if n == 10 else (lambda x: jnp.sum(x**2))

    def solve(seed):
        keys, clock = jax.random.split(jax.random.key(seed), 3), Clock(seconds)
        drawn = lambda draw, count, key: riesz.points(draw(low, high, count).draw(key).x)

        def loss(density):
            inside = drawn(riesz.monte_carlo, density * inner, keys[0])
            edge = drawn(riesz.monte_carlo_boundary, density * outer, keys[1])
            equation = riesz.residual(riesz.laplacian, 0.0 if n == 10 else 2.0 * n, inside)
            return equation + riesz.residual(riesz.identity, exact, edge)

        D, theta0 = riesz.tensor_train(keys[2], (rank,) * (n - 1), riesz.Legendre(0.0, 1.0, 3))
        found = clock.minimise(loss(1), D, theta0)
        return clock.known(found, relative_error(D, exact, uniform(low, high)), loss(20))

    setup = f"tensor train of rank {rank}, degree 2; {inner} random points, {outer} on the boundary"
    return Problem(known, published, bar, seconds, solve, setup)


def poisson_10d():
    return train(10, 3, 500, 200, "Poisson 10d", "6.0e-12 (DSGNAR, a separable ansatz)*", 1e-13, 200.0)


def poisson_100d():
    return train(100, 2, 1500, 1500, "Poisson 100d", "3.6e-3 (SPRING, a plain network)", 1e-10, 600.0)


# Laplace's equation on an L, with more parameters than rows. ----------------------------------------------------------


def l_shape():
    """Three squares around a corner at zero, u = r^(2/3) sin(2 phi / 3); the run is expected to be warned of."""
    corners = [(-1.0, -1.0), (-1.0, 0.0), (0.0, 0.0)]
    turns = [(0, 0), (1, 0), (1, 1), (-1, 1), (-1, -1), (0, -1), (0, 0)]

    def exact(x):
        angle = jnp.arctan2(x[1], x[0])
        return (x @ x) ** (1 / 3) * jnp.sin(2 / 3 * jnp.where(angle < 0, angle + 2 * PI, angle))

    def loss(density):
        n = round(16 * density**0.5)
        squares = [riesz.gauss_legendre(corner, (corner[0] + 1, corner[1] + 1), n) for corner in corners]
        inside = riesz.points(
            np.concatenate([s.x for s in squares]), weights=np.concatenate([s.weights for s in squares])
        )
        edge = []
        for a, b in zip(np.array(turns[:-1], float), np.array(turns[1:], float), strict=True):
            share = (np.arange(m := round(15 * density * np.abs(b - a).sum())) + 0.5) / m
            edge.append(a + share[:, None] * (b - a))
        edge = np.concatenate(edge)
        on_edge = riesz.points(edge, weights=np.full(len(edge), 8 / len(edge)))
        return riesz.residual(riesz.laplacian, 0.0, inside) + riesz.residual(riesz.identity, exact, on_edge)

    squares = np.random.default_rng(1).integers(0, 3, MANY)
    test = jnp.asarray(np.array(corners)[squares] + np.random.default_rng(2).random((MANY, 2)))
    model = lambda key: riesz.mlp(key, (2, 30, 30, 1), init="glorot")
    setup = "tanh 2-30-30-1; 3 x 16 x 16 Gauss points, 120 on the boundary: 888 rows"
    solve = one_run(loss, model, exact, test, 60.0)
    return Problem("Laplace on an L", "-", np.inf, 60.0, solve, setup)


PROBLEMS = {
    "poisson-2d": poisson_2d,
    "heat": heat,
    "heat-4d": heat_4d,
    "helmholtz-periodic": helmholtz_periodic,
    "helmholtz-soft": helmholtz_soft,
    "helmholtz-66": helmholtz_66,
    "wave": wave,
    "wave-slabs": wave_in_slabs,
    "convection": convection,
    "kovasznay": kovasznay,
    "poisson-10d": poisson_10d,
    "poisson-100d": poisson_100d,
    "l-shape": l_shape,
}
