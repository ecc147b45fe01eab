"""Every wrong call is answered with one sentence that names the argument, before the solver compiles anything."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz
from spoken import check_sentence

nan = float("nan")
key = jax.random.key(0)
x = jnp.linspace(-1.0, 1.0, 20)
y = jnp.sin(x)
plane = jnp.stack([x, x], axis=1)
over = riesz.points(x, data=y)
drawn = riesz.monte_carlo(0.0, 1.0, 5)
bow = [(0, 0), (1, 1), (1, 0), (0, 1)]
corner = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
loss = riesz.least_squares(over)
drawn_loss = riesz.residual(riesz.identity, 0.0, drawn)
D, theta = riesz.mlp(key, (1, 3, 1))
thetas = jnp.stack([theta, -theta])
pair, theta_pair = riesz.mlp(key, (1, 3, 2))
network = eqx.nn.MLP(2, 1, 4, 1, key=key)
single = lambda a: a.astype(jnp.float32)
single_loss = riesz.least_squares(riesz.points(single(x), data=single(y)))


class Silent(eqx.Module):
    """A module that cannot be called."""

    a: jax.Array


class Mixed(eqx.Module):
    """A module of two precisions."""

    a: jax.Array
    b: jax.Array

    def __call__(self, x):
        return self.a * x + self.b


def minimise(loss=loss, D=D, theta0=theta, **options):
    return riesz.minimise(loss, D, theta0, **options)


def restarting(start=None, D=D, key=key):
    return minimise(D=D, restarts=riesz.Restarts(3, start), key=key)


def many(thetas=thetas, loss=loss, D=D, **options):
    return riesz.minimise_many(loss, D, thetas, **options)


def march(slab=lambda t0, t1, before: (loss, D), times=(0.0, 1.0), theta0=theta, **options):
    return riesz.march(slab, times, theta0, **options)


def integral(density, over=over, **options):
    return riesz.Integral(density, over, **options)


def with_entry(array, index, value):
    return array.at[index].set(value)


# What is wrong, the call, the exception, and a pattern of its message with the name of the argument.
MEASURES = [
    ("no points", lambda: riesz.points([]), ValueError, r"^x must hold at least one point"),
    ("a single number", lambda: riesz.points(1.0), ValueError, r"^x must hold at least one point"),
    ("no points of two entries", lambda: riesz.points(jnp.zeros((0, 2))), ValueError, r"^x must hold .* \(0, 2\)"),
    ("points are None", lambda: riesz.points(None), TypeError, r"^x must be an array of numbers"),
    ("points are text", lambda: riesz.points("a"), TypeError, r"^x must be an array of numbers"),
    ("ragged points", lambda: riesz.points([[1.0, 2.0], [3.0]]), TypeError, r"^x must be an array of numbers"),
    ("complex points", lambda: riesz.points(1j * x), TypeError, r"^x must be real"),
    ("NaN point", lambda: riesz.points(with_entry(x, 3, nan)), ValueError, r"^x must be finite, but row 3"),
    ("infinite point", lambda: riesz.points(with_entry(plane, (4, 1), jnp.inf)), ValueError, r"^x .* row 4"),
    ("NaN data", lambda: riesz.points(x, data=with_entry(y, 7, nan)), ValueError, r"^data must be finite, but row 7"),
    ("NaN vector data", lambda: riesz.points(x, data=with_entry(plane, (5, 0), nan)), ValueError, r"^data .* row 5"),
    ("too few data", lambda: riesz.points(x, data=y[1:]), ValueError, r"^data must have one row for each .* \(19,\)"),
    ("data is a number", lambda: riesz.points(x, data=1.0), ValueError, r"^data must have one row"),
    ("data are text", lambda: riesz.points(x, data=["a"] * 20), TypeError, r"^data must be an array of numbers"),
    ("single data", lambda: riesz.points(x, data=single(y)), TypeError, r"^data and x .* float32 and float64"),
    ("negative weight", lambda: riesz.points(x, weights=with_entry(x**2, 2, -1.0)), ValueError, r"weights\[2\] is -1"),
    ("NaN weight", lambda: riesz.points(x, weights=with_entry(x**2, 6, nan)), ValueError, r"^weights must be .* row 6"),
    ("one weight", lambda: riesz.points(x, weights=1.0), ValueError, r"^weights must have shape \(20,\)"),
    ("too many weights", lambda: riesz.points(x, weights=jnp.ones(21)), ValueError, r"^weights must have .* \(21,\)"),
    ("single weights", lambda: riesz.points(x, weights=single(x**2)), TypeError, r"^weights and x must have one dtype"),
    ("no grid points", lambda: riesz.grid(0.0, 1.0, 0), ValueError, r"^n must be at least 1"),
    ("half a grid point", lambda: riesz.grid(0.0, 1.0, 2.5), TypeError, r"^n must be a whole number"),
    ("three counts, two axes", lambda: riesz.grid((0, 0), (1, 1), (3, 3, 3)), ValueError, r"^n must be one number or"),
    ("empty box", lambda: riesz.grid(1.0, 1.0, 5), ValueError, r"^low must lie below high"),
    ("upside-down box", lambda: riesz.grid((0, 1), (1, 0), 5), ValueError, r"^low must lie below high, .* 1.* and 0"),
    ("box of no dimension", lambda: riesz.grid([], [], 5), ValueError, r"^low and high must be"),
    ("corners of two shapes", lambda: riesz.grid((0, 0), 1.0, 5), ValueError, r"^low and high must be .* \(2,\) and"),
    ("NaN corner", lambda: riesz.grid(nan, 1.0, 5), ValueError, r"^low must be finite"),
    ("corner is text", lambda: riesz.grid(0.0, "1", 5), TypeError, r"^high must be a number"),
    ("mixed corners", lambda: riesz.grid(jnp.float32(0), jnp.float64(1), 5), TypeError, r"^low and high .* one dtype"),
    ("no draws", lambda: riesz.monte_carlo(0.0, 1.0, 0), ValueError, r"^n must be at least 1"),
    ("draws are text", lambda: riesz.monte_carlo(0.0, 1.0, "5"), TypeError, r"^n must be a whole number"),
    ("infinite box", lambda: riesz.monte_carlo(0.0, jnp.inf, 5), ValueError, r"^high must be finite"),
    ("disc on a line", lambda: riesz.disc(0.0, 1.0, 5), ValueError, r"^centre must be a point of the plane, .* \(\)"),
    ("disc in space", lambda: riesz.circle((0, 0, 0), 1.0, 5), ValueError, r"^centre must be .* \(3,\)"),
    ("disc of no radius", lambda: riesz.disc((0, 0), 0.0, 5), ValueError, r"^radius must be greater than 0"),
    ("two radii", lambda: riesz.monte_carlo_disc((0, 0), (1, 2), 5), ValueError, r"^radius must be a single number"),
    ("centre is text", lambda: riesz.circle("0", 1.0, 5), TypeError, r"^centre must be a number"),
    ("mixed disc", lambda: riesz.disc(jnp.zeros(2), jnp.float32(1), 5), TypeError, r"^centre and radius .* one dtype"),
    ("no points on a disc", lambda: riesz.disc((0, 0), 1, 0), ValueError, r"^n must be at least 1"),
    ("no points on a circle", lambda: riesz.circle((0, 0), 1, 0), ValueError, r"^n must be at least 1"),
    (
        "two vertices",
        lambda: riesz.polygon([(0, 0), (1, 0)], 3),
        ValueError,
        r"^vertices must be at least 3 .* \(2, 2\)",
    ),
    ("polygon in space", lambda: riesz.polygon(np.eye(3), 3), ValueError, r"^vertices must be .* plane, .* \(3, 3\)"),
    ("closed polygon", lambda: riesz.polygon([*corner, (0, 0)], 3), ValueError, r"^vertices must differ, but 0 and 3"),
    ("flat polygon", lambda: riesz.polygon([(0, 0), (1, 1), (3, 3)], 3), ValueError, r"^vertices must be .* one line"),
    (
        "bow tie",
        lambda: riesz.polygon(bow, 3),
        ValueError,
        r"^vertices must be .* sides from 0 to 1 and from 2 to 3 touch",
    ),
    ("bow tie of sides", lambda: riesz.polygon_boundary(bow, 3), ValueError, r"^vertices must be those of a simple"),
    (
        "polygon that goes back",
        lambda: riesz.monte_carlo_polygon([(0, 0), (2, 0), (1, 0), (1, 1)], 3),
        ValueError,
        r"^vertices must be those of a simple polygon, but its sides from 0 to 1 and from 1 to 2 touch or cross",
    ),
    ("NaN vertex", lambda: riesz.polygon([(0, 0), (1, 0), (nan, 1)], 3), ValueError, r"^vertices must be finite"),
    ("traced", lambda: jax.jit(lambda v: riesz.polygon(v, 3))(corner), TypeError, r"^vertices must be numbers, not tr"),
    ("no points in a polygon", lambda: riesz.polygon(corner, 0), ValueError, r"^n must be at least 1"),
    ("no points on sides", lambda: riesz.polygon_boundary(corner, 0), ValueError, r"^n must be at least 1"),
    ("no draws in a polygon", lambda: riesz.monte_carlo_polygon(corner, 0), ValueError, r"^n must be at least 1"),
    ("union of nothing", lambda: riesz.union(), ValueError, r"^measures must be one or more"),
    ("union with an array", lambda: riesz.union(over, x), TypeError, r"^measures\[1\] must be a measure"),
    ("measure plus a number", lambda: over + 1.0, TypeError, r"^the other side of \+ must be a measure"),
    ("number plus a measure", lambda: 1.0 + over, TypeError, r"^the other side of \+ must be a measure"),
    (
        "union of two shapes",
        lambda: riesz.union(drawn, riesz.disc((0, 0), 1, 3)),
        ValueError,
        r"^measures must have points of one kind, but 0 has float64 of shape \(\) and 1 has float64 of shape \(2,\)",
    ),
    (
        "union of data",
        lambda: over + riesz.points(x),
        ValueError,
        r"^measures must have data of one kind, .* 1 has none",
    ),
    (
        "union of Christoffel points",
        lambda: riesz.christoffel(over, 2) + over,
        ValueError,
        r"^measures\[0\] must draw its points without the tangent space: at must be given",
    ),
    ("batch of an array", lambda: riesz.minibatch(x, 5), TypeError, r"^points must be fixed points"),
    ("batch of draws", lambda: riesz.minibatch(drawn, 3), TypeError, r"^points must be fixed points"),
    ("batch too large", lambda: riesz.minibatch(over, 21), ValueError, r"^n must be at most .* 20, but it is 21"),
    ("empty batch", lambda: riesz.minibatch(over, 0), ValueError, r"^n must be at least 1"),
]

LOSSES = [
    ("density is a number", lambda: integral(1.0), TypeError, r"^density must be a function"),
    ("over is an array", lambda: integral(jnp.sum, x), TypeError, r"^over must be a measure"),
    ("operator is text", lambda: integral(jnp.sum, operator="id"), TypeError, r"^operator must be a function"),
    ("regression over points", lambda: riesz.least_squares(x), TypeError, r"^over must be a measure"),
    ("negative factor", lambda: -2.0 * loss, ValueError, r"^the factor of a loss must be greater than 0"),
    ("factor zero", lambda: 0 * loss, ValueError, r"^the factor of a loss must be greater than 0"),
    ("factor NaN", lambda: loss * nan, ValueError, r"^the factor of a loss must be finite"),
    ("several factors", lambda: loss * jnp.ones(3), ValueError, r"^the factor of a loss must be a single number"),
    ("several NumPy factors", lambda: np.ones(3) * loss, ValueError, r"^the factor of a loss must be a single"),
    ("factor is text", lambda: loss * "2", TypeError, r"^the factor of a loss must be a number"),
    ("loss times loss", lambda: loss * loss, TypeError, r"^a loss can be multiplied by a number"),
    ("loss plus number", lambda: loss + 1.0, TypeError, r"^the other side of \+ must be a loss, not 1.0"),
    ("number plus loss", lambda: 1.0 + loss, TypeError, r"^the other side of \+ must be a loss"),
    ("loss minus loss", lambda: loss - loss, ValueError, r"^losses cannot be subtracted: .* density"),
    ("number minus loss", lambda: 1.0 - loss, ValueError, r"^losses cannot be subtracted"),
    ("minus a loss", lambda: -loss, ValueError, r"^the factor of a loss .* sign belongs in the density"),
    ("loss at a number", lambda: loss(3.0), TypeError, r"^v must be a function"),
    ("loss of drawn points", lambda: drawn_loss(jnp.sin), ValueError, r"^key must be given"),
    ("loss with a seed", lambda: drawn_loss(jnp.sin, key=0), TypeError, r"^key must be one random key"),
    ("residual, no operator", lambda: riesz.residual(None, 0.0, over), TypeError, r"^operator must be a function"),
    ("residual, source", lambda: riesz.residual(riesz.identity, "f", over), TypeError, r"^source must be a number"),
    ("residual, NaN source", lambda: riesz.residual(riesz.identity, nan, over), ValueError, r"^source must be finite"),
    ("residual, over", lambda: riesz.residual(riesz.identity, 0.0, x), TypeError, r"^over must be a measure"),
    ("labels are 1 and 2", lambda: riesz.logistic(riesz.points(x, data=1 + (x > 0))), ValueError, r"^data .* 1 to 2"),
    ("labels are -1 and 1", lambda: riesz.logistic(riesz.points(x, data=jnp.sign(x))), ValueError, r"^data must be"),
    ("logistic over an array", lambda: riesz.logistic(x), TypeError, r"^over must be a measure"),
]

MODELS = [
    ("model is an array", lambda: riesz.parametrise(x), TypeError, r"^model must be an equinox module"),
    ("module without a call", lambda: riesz.parametrise(Silent(x)), TypeError, r"^model must be an equinox module"),
    ("module without arrays", lambda: riesz.parametrise(eqx.nn.Lambda(jnp.sin)), ValueError, r"^model must hold at"),
    ("module of two dtypes", lambda: riesz.parametrise(Mixed(x, single(x))), TypeError, r"^model must have one dtype"),
    ("no parameters given", lambda: riesz.parametrise(lambda p, x: x), TypeError, r"^params must be given"),
    ("empty parameters", lambda: riesz.parametrise(lambda p, x: x, {}), ValueError, r"^params must hold at least one"),
    ("integer parameters", lambda: riesz.parametrise(lambda p, x: x, {"a": 1}), TypeError, r"^params must be floating"),
    ("text parameters", lambda: riesz.parametrise(lambda p, x: x, {"a": "b"}), TypeError, r"^params must be an array"),
    (
        "parameters of two dtypes",
        lambda: riesz.parametrise(lambda p, x: x, {"a": x, "b": single(x)}),
        TypeError,
        r"^params must have one dtype, but it mixes float32 and float64",
    ),
    ("D at too few parameters", lambda: D(theta[1:]), ValueError, r"^theta must have shape \(10,\)"),
    ("seed for a key", lambda: riesz.mlp(0, (1, 3, 1)), TypeError, r"^key must be one random key"),
    ("several keys", lambda: riesz.mlp(jax.random.split(key), (1, 3, 1)), TypeError, r"^key must be one random key"),
    ("one layer", lambda: riesz.mlp(key, (1,)), ValueError, r"^sizes must list at least"),
    ("sizes is a number", lambda: riesz.mlp(key, 3), ValueError, r"^sizes must list at least"),
    ("half a neuron", lambda: riesz.mlp(key, (1, 2.5, 1)), TypeError, r"^sizes must be a whole number"),
    ("layer of size zero", lambda: riesz.mlp(key, (1, 0, 1)), ValueError, r"^sizes must be at least 1"),
    ("unknown activation", lambda: riesz.mlp(key, (1, 3, 1), "tanhh"), ValueError, r"^activation must be one of"),
    ("activation is a number", lambda: riesz.mlp(key, (1, 3, 1), 3), TypeError, r"^activation must be a function"),
    (
        "sines at a negative frequency",
        lambda: riesz.sine_mlp(key, (1, 3, 1), -2.0),
        ValueError,
        r"^frequency must be gr",
    ),
    ("sines in no layer", lambda: riesz.sine_mlp(key, (1, 1), 2.0), ValueError, r"^sizes must list a layer of sines"),
    (
        "a stage of no size",
        lambda: riesz.stage(D, theta, (D, theta), 0.0),
        ValueError,
        r"^scale must be greater than 0",
    ),
    ("a stage without start", lambda: riesz.stage(D, theta, D, 0.1), TypeError, r"^network must be a pair"),
    ("no harmonic", lambda: riesz.periodic(D, 2.0, harmonics=0), ValueError, r"^harmonics must be at least 1"),
    ("features are an array", lambda: riesz.linear(x, 3), TypeError, r"^features must be a function"),
    ("no features", lambda: riesz.linear(jnp.sin, 0), ValueError, r"^size must be at least 1"),
]

PARTS = [
    ("floor at zero", lambda: riesz.Floor(0.0), ValueError, r"^eps must be greater than 0"),
    ("floor of text", lambda: riesz.Floor("a"), TypeError, r"^eps must be a number"),
    ("floor of None", lambda: riesz.Floor(None), TypeError, r"^eps must be a number, not None"),
    ("negative shift", lambda: riesz.Shift(-1e-3), ValueError, r"^eps must be greater than 0"),
    ("NaN shift", lambda: riesz.Shift(nan), ValueError, r"^eps must be finite"),
    ("negative cutoff", lambda: riesz.Cutoff(-1e-3), ValueError, r"^eps must be at least 0"),
    ("cutoff is a truth value", lambda: riesz.Cutoff(True), TypeError, r"^eps must be a number"),
    ("step zero", lambda: riesz.Constant(0.0), ValueError, r"^alpha must be greater than 0"),
    ("step None", lambda: riesz.Constant(None), TypeError, r"^alpha must be a number"),
    ("negative step", lambda: riesz.Clipped(-0.1), ValueError, r"^alpha must be greater than 0"),
    ("infinite step", lambda: riesz.Clipped(jnp.inf), ValueError, r"^alpha must be finite"),
    ("no step sizes", lambda: riesz.GridSearch([]), ValueError, r"^grid must be a list of at least one"),
    ("one step size", lambda: riesz.GridSearch(0.5), ValueError, r"^grid must be a list"),
    ("a step size of zero", lambda: riesz.GridSearch([1.0, 0.0]), ValueError, r"^grid must be .* it holds 0"),
    ("initial step", lambda: riesz.Armijo(initial=0.0), ValueError, r"^initial must be greater than 0"),
    ("growing steps", lambda: riesz.Armijo(shrink=1.5), ValueError, r"^shrink must be less than 1, but it is 1.5"),
    ("negative decrease", lambda: riesz.Armijo(decrease=-1.0), ValueError, r"^decrease must be at least 0"),
    ("half a halving", lambda: riesz.Armijo(halvings=2.5), TypeError, r"^halvings must be a whole number"),
    ("NaN momentum", lambda: riesz.ConstantMomentum(nan), ValueError, r"^beta must be finite"),
    ("offset too small", lambda: riesz.NesterovMomentum(offset=-1), ValueError, r"^offset must be greater than -1"),
    ("scale is text", lambda: riesz.NesterovMomentum(scale="1"), TypeError, r"^scale must be a number"),
    ("inner product of a number", lambda: riesz.InnerProduct(1.0), TypeError, r"^operator must be a function"),
    ("its density", lambda: riesz.InnerProduct(density=1.0), TypeError, r"^density must be a function"),
    ("its measure", lambda: riesz.InnerProduct(over=x), TypeError, r"^over must be a measure"),
]

METHODS = [
    ("beta is text", lambda: riesz.nhb(beta="fast"), TypeError, r"^beta must be a number"),
    ("beta is NaN", lambda: riesz.heavy_ball(beta=nan), ValueError, r"^beta must be finite"),
    ("beta of nothing", lambda: riesz.nn1(beta=lambda: 0.5), ValueError, r"^beta must be a function of k"),
    ("beta branches", lambda: riesz.nn2(beta=lambda k: 0.5 if k > 3 else 0.0), ValueError, r"^beta .* JAX can trace"),
    ("beta returns None", lambda: riesz.qnhb(beta=lambda k: None), ValueError, r"^beta must return a number"),
    ("beta returns two", lambda: riesz.nesterov(beta=lambda k: jnp.ones(2)), ValueError, r"^beta must return a number"),
    ("W is a class", lambda: riesz.nhb(W=riesz.L2), TypeError, r"^W must be an inner product"),
    ("X is text", lambda: riesz.nhb(X="L2"), TypeError, r"^X must be an inner product"),
    ("X is an array", lambda: riesz.nn1_fd(X=x), TypeError, r"^X must be an inner product"),
    ("filter is a number", lambda: riesz.ngd(filter=1e-8), TypeError, r"^filter must be a filter"),
    ("filter is a loss", lambda: riesz.newton(filter=loss), TypeError, r"^filter must be a filter"),
    ("step size is a number", lambda: riesz.gd(step_size=0.1), TypeError, r"^step_size must be a step size"),
    ("retraction is text", lambda: riesz.nhb_fd(retraction="line"), TypeError, r"^retraction must be a retraction"),
    ("factorisation is text", lambda: riesz.qnn2(factorisation="gram"), TypeError, r"^factorisation must be"),
]

PROBLEMS = [
    ("loss is a function", lambda: minimise(riesz.least_squares), TypeError, r"^loss must be a loss"),
    ("loss is an array", lambda: minimise(x), TypeError, r"^loss must be a loss"),
    ("D is an array", lambda: minimise(D=x), TypeError, r"^D must be a function"),
    ("D returns numbers", lambda: minimise(D=lambda theta: 3.0), ValueError, r"^D must return a function"),
    ("D is a module", lambda: minimise(D=network), ValueError, r"^D must turn theta into a function"),
    ("D's functions return None", lambda: minimise(D=lambda t: lambda x: None), TypeError, r"^D must give functions"),
    ("D's functions return integers", lambda: minimise(D=lambda t: lambda x: 1), TypeError, r"^D must give functions"),
    (
        "values in single precision",
        lambda: minimise(D=lambda t: lambda x: single(D(t)(x))),
        TypeError,
        r"^theta and D's values in the loss must have one dtype",
    ),
    ("theta0 is a pytree", lambda: minimise(theta0={"a": 1.0}), TypeError, r"^theta0 must be an array of numbers"),
    ("theta0 is empty", lambda: minimise(theta0=[]), ValueError, r"^theta0 must have one axis"),
    ("theta0 has two axes", lambda: minimise(theta0=theta[None]), ValueError, r"^theta0 must have one axis"),
    ("theta0 is integer", lambda: minimise(theta0=jnp.ones(10, int)), TypeError, r"^theta0 must be floating-point"),
    ("theta0 is NaN", lambda: minimise(theta0=with_entry(theta, 4, nan)), ValueError, r"^theta0 must be .* row 4"),
    ("theta0 is too short", lambda: minimise(theta0=theta[1:]), ValueError, r"^theta must have shape \(10,\)"),
    ("theta0 is single", lambda: minimise(theta0=single(theta)), TypeError, r"^theta and the points .* float32 and"),
    ("points are single", lambda: minimise(single_loss), TypeError, r"^theta and the points of the loss .* float32"),
    (
        "weights are double",
        lambda: minimise(jnp.float64(2) * single_loss, theta0=single(theta)),
        TypeError,
        r"^theta and the weights of the loss must have one dtype",
    ),
    (
        "points in the plane for a network on the line",
        lambda: minimise(riesz.least_squares(riesz.points(plane, data=y))),
        ValueError,
        r"^x must hold points of shape \(1,\) for this network, not \(2,\)",
    ),
    (
        "points on the line for a network in the plane",
        lambda: minimise(loss, *riesz.parametrise(network)),
        ValueError,
        r"^D and operator must accept the points of the loss",
    ),
    (
        "derivative in the plane",
        lambda: minimise(
            riesz.residual(riesz.derivative, 0.0, riesz.points(plane)), lambda t: lambda x: t[0] * jnp.sum(x)
        ),
        ValueError,
        r"^D and operator must .* \(2,\): derivative takes scalar points",
    ),
    (
        "operator gives no function",
        lambda: minimise(integral(jnp.sum, operator=lambda v: 3.0)),
        ValueError,
        r"^D and operator must accept the points",
    ),
    (
        "too many features",
        lambda: minimise(loss, *riesz.linear(lambda x: x ** jnp.arange(4), size=3)),
        ValueError,
        r"^features must return 3 entries .* \(4,\)",
    ),
    (
        "vector model, scalar data",
        lambda: minimise(loss, pair, theta_pair),
        ValueError,
        r"^data must match the model in least_squares: values are \(2,\), data is \(\)",
    ),
    (
        "scalar model, vector data",
        lambda: minimise(riesz.least_squares(riesz.points(x, data=plane))),
        ValueError,
        r"^data must match the model in least_squares: values are \(\), data is \(2,\)",
    ),
    (
        "vector model, scalar labels",
        lambda: minimise(riesz.logistic(riesz.points(x, data=x > 0)), pair, theta_pair),
        ValueError,
        r"^data must match the model in logistic",
    ),
    (
        "regression without data",
        lambda: minimise(riesz.least_squares(riesz.points(x))),
        ValueError,
        r"^over must carry data for least_squares",
    ),
    (
        "logistic on drawn points",
        lambda: minimise(riesz.logistic(drawn), key=key),
        ValueError,
        r"^over must carry data for logistic",
    ),
    (
        "source of another shape",
        lambda: minimise(riesz.residual(riesz.identity, lambda x: jnp.ones(3), over)),
        ValueError,
        r"^source must match A v in residual: \(\) and \(3,\)",
    ),
    (
        "relu under a Laplacian",
        lambda: minimise(riesz.residual(riesz.laplacian, 1.0, over), *riesz.mlp(key, (1, 3, 1), "relu")),
        ValueError,
        r"^loss must depend on theta, but the operator's values do not .* such as relu, under a Laplacian",
    ),
    (
        "a deep relu network under second derivatives",
        lambda: minimise(
            riesz.residual(riesz.hessian, 1.0, riesz.points(plane)), *riesz.mlp(key, (2, 3, 3, 1), "relu")
        ),
        ValueError,
        r"^loss must depend on theta, but the operator's values do not",
    ),
    (
        "every term without its parameters",
        lambda: minimise(
            riesz.residual(riesz.laplacian, 1.0, over) + riesz.residual(riesz.partial(0, 0), 0.0, over),
            *riesz.mlp(key, (1, 3, 1), "identity"),
        ),
        ValueError,
        r"^loss must depend on theta, but the operator's values do not",
    ),
    ("density is a vector", lambda: minimise(integral(lambda z: jnp.stack([z, z]))), ValueError, r"^density .* scalar"),
    (
        "density is a vector in one of two terms",
        lambda: minimise(loss + integral(lambda z: z[None])),
        ValueError,
        r"^density must return a real scalar, but in term 1 of the loss",
    ),
    ("density is None", lambda: minimise(integral(lambda z: None)), ValueError, r"^density must return a real scalar"),
    ("density is an integer", lambda: minimise(integral(lambda z: 1)), ValueError, r"^density must return .* int64"),
    ("density takes three", lambda: minimise(integral(lambda z, a, b: z)), ValueError, r"^density must be a function"),
    ("density takes nothing", lambda: minimise(integral(lambda: 1.0)), ValueError, r"^density must be a function"),
    ("density branches", lambda: minimise(integral(lambda z: z if z > 0 else -z)), ValueError, r"^density must be a"),
    (
        "density wants data that are not there",
        lambda: minimise(integral(lambda z, y: z - y, riesz.points(x))),
        ValueError,
        r"^density .* over carries no data",
    ),
    (
        "density and data of different shapes",
        lambda: minimise(
            integral(lambda z, y: jnp.sum(z - y), riesz.points(x, data=jnp.ones((20, 3)))), pair, theta_pair
        ),
        ValueError,
        r"^density must be .* but it fails in the loss: .* \(2,\), \(3,\)",
    ),
]

OPTIONS = [
    ("method is unknown", lambda: minimise(method="adam"), ValueError, r"^method must be one of .* not 'adam'"),
    ("method is a function", lambda: minimise(method=riesz.nhb), TypeError, r"^method must be a method"),
    ("method is a class", lambda: minimise(method=riesz.HeavyBall), TypeError, r"^method must be a method"),
    ("method is a loss", lambda: minimise(method=loss), TypeError, r"^method must be a method"),
    ("method is a number", lambda: minimise(method=0.1), TypeError, r"^method must be a method"),
    ("restarts are a number", lambda: minimise(restarts=3, key=key), TypeError, r"^restarts must be riesz.Restarts"),
    ("no restart", lambda: riesz.Restarts(0), ValueError, r"^n must be at least 1"),
    ("half a restart", lambda: riesz.Restarts(1.5), TypeError, r"^n must be a whole number"),
    ("start is an array", lambda: riesz.Restarts(3, theta), TypeError, r"^start must be a function"),
    ("restarts without a key", lambda: restarting(key=None), ValueError, r"^key must be given.* restarts draw"),
    ("restarts with a seed", lambda: restarting(key=0), TypeError, r"^key must be one random key"),
    ("no start to begin from", lambda: restarting(D=lambda t: D(t)), ValueError, r"^start must be given.* no D.start"),
    ("start of another size", lambda: restarting(lambda key: theta[1:]), ValueError, r"^start\(key\) .* of theta0"),
    ("start is a matrix", lambda: restarting(lambda key: thetas), ValueError, r"^start\(key\) must have one axis"),
    ("start of integers", lambda: restarting(lambda key: jnp.arange(10)), TypeError, r"^start\(key\) must be floating"),
    ("start of NaN", lambda: restarting(lambda key: nan * theta), ValueError, r"^start\(key\) must be finite"),
    ("start of nothing", lambda: restarting(lambda key: None), TypeError, r"^start\(key\) must be an array"),
    ("seed for a start", lambda: D.start(0), TypeError, r"^key must be one random key"),
    ("several betas", lambda: minimise(method=riesz.nhb(beta=jnp.ones(2))), ValueError, r"^beta must be .* single"),
    (
        "several floors",
        lambda: minimise(method=riesz.nhb(filter=riesz.Floor(jnp.ones(2)))),
        ValueError,
        r"^filter must be made of single numbers",
    ),
    (
        "several step sizes",
        lambda: minimise(method=riesz.gd(riesz.Constant(jnp.ones(2)))),
        ValueError,
        r"^step_size must be made of single numbers",
    ),
    (
        "beta in double precision",
        lambda: minimise(single_loss, theta0=single(theta), method=riesz.nhb(beta=lambda k: jnp.float64(0.5))),
        TypeError,
        r"^theta and beta must have one dtype",
    ),
    (
        "metric of a linear loss",
        lambda: minimise(integral(lambda z: -z), method=riesz.nhb(W=riesz.GaussNewton())),
        ValueError,
        r"^W=GaussNewton\(\) has no metric here",
    ),
    (
        "form is a vector",
        lambda: minimise(method=riesz.nhb(W=riesz.InnerProduct(density=lambda z: z[None]))),
        ValueError,
        r"^density must return a real scalar, but in W",
    ),
    (
        "metric in the plane",
        lambda: minimise(method=riesz.nhb(X=riesz.InnerProduct(over=riesz.grid((0, 0), (1, 1), 3)))),
        ValueError,
        r"^x must hold points of shape \(1,\) for this network",
    ),
    (
        "metric in single precision",
        lambda: minimise(method=riesz.nhb(X=riesz.InnerProduct(over=riesz.points(single(x))))),
        TypeError,
        r"^theta and the points of X must have one dtype",
    ),
    (
        "metric draws without a key",
        lambda: minimise(method=riesz.nhb(W=riesz.InnerProduct(over=drawn))),
        ValueError,
        r"^key must be given, .* W draws",
    ),
    ("loss draws without a key", lambda: minimise(drawn_loss), ValueError, r"^key must be given"),
    ("key is a seed", lambda: minimise(drawn_loss, key=0), TypeError, r"^key must be one random key"),
    ("key is not needed, but wrong", lambda: minimise(key="0"), TypeError, r"^key must be one random key"),
    ("negative steps", lambda: minimise(max_steps=-1), ValueError, r"^max_steps must be at least 0"),
    ("steps are a float", lambda: minimise(max_steps=10.0), TypeError, r"^max_steps must be a whole number"),
    ("steps are a truth value", lambda: minimise(max_steps=True), TypeError, r"^max_steps must be a whole number"),
    ("target is text", lambda: minimise(target="small"), TypeError, r"^target must be a number"),
    ("target is NaN", lambda: minimise(target=nan), ValueError, r"^target must be finite"),
    ("several targets", lambda: minimise(target=[1.0, 2.0]), ValueError, r"^target must be a single number"),
    ("target without metrics", lambda: minimise(target={"mse": 1.0}), ValueError, r"^target .* no metric mse"),
    ("empty target", lambda: minimise(target={}), ValueError, r"^target must name metrics"),
    (
        "target of a metric is None",
        lambda: minimise(target={"size": None}, metrics={"size": jnp.sum}),
        TypeError,
        r"^target\['size'\] must be a number",
    ),
    ("negative tolerance", lambda: minimise(tolerance=-1e-3), ValueError, r"^tolerance must be at least 0"),
    ("several tolerances", lambda: minimise(tolerance=jnp.ones(2)), ValueError, r"^tolerance must be a single number"),
    ("tolerance of what", lambda: minimise(tolerance={"size": 1.0}), ValueError, r"^tolerance must be a number, or"),
    ("tolerance of nothing", lambda: minimise(tolerance={}), ValueError, r"^tolerance must be a number, or"),
    ("negative step", lambda: minimise(tolerance={"step": -1}), ValueError, r"^tolerance\['step'\] must be at least 0"),
    ("checkpoint is a number", lambda: minimise(checkpoint=3), TypeError, r"^checkpoint must be a folder"),
    ("log is a number", lambda: minimise(log=3), TypeError, r"^log must be a path"),
    ("no time", lambda: minimise(max_seconds=0), ValueError, r"^max_seconds must be greater than 0"),
    ("time is text", lambda: minimise(max_seconds="1 min"), TypeError, r"^max_seconds must be a number"),
    ("metrics are a list", lambda: minimise(metrics=[jnp.sum]), TypeError, r"^metrics must be a dictionary"),
    ("metric is a number", lambda: minimise(metrics={"mse": 1.0}), TypeError, r"^metrics\['mse'\] must be a function"),
    ("metric is a vector", lambda: minimise(metrics={"mse": jnp.sin}), ValueError, r"^metrics\['mse'\] must .* scalar"),
    (
        "metric is complex",
        lambda: minimise(metrics={"a": lambda t: 1j * t[0]}),
        TypeError,
        r"^metrics\['a'\] .* complex",
    ),
    ("many by a complex metric", lambda: many(metrics={"a": lambda t: 1j * t[0]}), TypeError, r"^metrics\['a'\] must"),
    ("metric is called loss", lambda: minimise(metrics={"loss": jnp.sum}), ValueError, r"^metrics .* named loss"),
    ("metric's name is a number", lambda: minimise(metrics={1: jnp.sum}), TypeError, r"name in metrics must be text"),
    ("metric leaves JAX", lambda: minimise(metrics={"a": lambda t: float(t[0])}), ValueError, r"^metrics\['a'\] must"),
    ("callback is a number", lambda: minimise(callback=1), TypeError, r"^callback must be a function"),
    ("progress is text", lambda: minimise(progress="yes"), ValueError, r"^progress must be True, False or"),
]

MANY = [
    ("one start", lambda: many(theta), ValueError, r"^thetas must have two axes"),
    ("no starts", lambda: many(jnp.zeros((0, 10))), ValueError, r"^thetas must have two axes.* \(0, 10\)"),
    ("starts of two lengths", lambda: many([theta, theta[1:]]), TypeError, r"^thetas must be an array of numbers"),
    ("integer starts", lambda: many(jnp.ones((2, 10), int)), TypeError, r"^thetas must be floating-point"),
    ("NaN start", lambda: many(with_entry(jnp.ones((3, 10)), (1, 2), nan)), ValueError, r"^thetas .* row 1"),
    ("starts too long", lambda: many(jnp.ones((3, 11))), ValueError, r"^theta must have shape \(10,\)"),
    ("starts in single", lambda: many(single(jnp.ones((3, 10)))), TypeError, r"^theta and the points"),
    ("many by an unknown method", lambda: many(method="adam"), ValueError, r"^method must be one of"),
    ("many with no threads", lambda: many(threads=0), ValueError, r"^threads must be at least 1"),
    ("many with half a thread", lambda: many(threads=0.5), TypeError, r"^threads must be a whole number"),
    ("many with progress", lambda: many(progress="yes"), ValueError, r"^progress must be True"),
    ("many without a key", lambda: many(loss=drawn_loss), ValueError, r"^key must be given"),
    ("many to a missing metric", lambda: many(target={"mse": 1.0}), ValueError, r"^target must name metrics"),
    ("many with a vector density", lambda: many(loss=integral(lambda z: z[None])), ValueError, r"^density must return"),
]

SPACES = [
    ("space of a function", lambda: riesz.tangent_space(jnp.sin, D, theta), TypeError, r"^loss must be a loss"),
    ("space of no model", lambda: riesz.tangent_space(loss, None, theta), TypeError, r"^D must be a function"),
    ("space at a list", lambda: riesz.tangent_space(loss, D, [1.0] * 10), TypeError, r"^theta must be a vector"),
    ("space at many thetas", lambda: riesz.tangent_space(loss, D, theta[None]), TypeError, r"^theta must be a vector"),
    ("space at NaN", lambda: riesz.tangent_space(loss, D, theta * nan), ValueError, r"^theta must be finite"),
    ("space at too few", lambda: riesz.tangent_space(loss, D, theta[1:]), ValueError, r"^theta must have shape"),
    ("space in single", lambda: riesz.tangent_space(loss, D, single(theta)), TypeError, r"^theta and the points"),
    ("space without a key", lambda: riesz.tangent_space(drawn_loss, D, theta), ValueError, r"^key must be given"),
    ("space with a named W", lambda: riesz.tangent_space(loss, D, theta, W="L2"), TypeError, r"^W must be an inner"),
    ("space with a bare eps", lambda: riesz.tangent_space(loss, D, theta, filter=1e-8), TypeError, r"^filter must be"),
    (
        "space factorised by name",
        lambda: riesz.tangent_space(loss, D, theta, factorisation="gram"),
        TypeError,
        r"^factorisation must be",
    ),
    (
        "space with a drawn W",
        lambda: riesz.tangent_space(loss, D, theta, W=riesz.InnerProduct(over=riesz.monte_carlo(-1.0, 1.0, 5))),
        ValueError,
        r"^key must be given",
    ),
    ("space with a seed", lambda: riesz.tangent_space(drawn_loss, D, theta, key=1), TypeError, r"^key must be one"),
]


def error(v=jnp.sin, a=1.0, f=0.0, low=0.0, high=1.0, **options):
    return riesz.elliptic_error(v, a, f, low, high, n=options.pop("n", 8), **options)


def plane_error(**options):
    return error(**{"v": jnp.sum, "low": (0.0, 0.0), "high": (1.0, 1.0), **options})


inside = riesz.points(jnp.full((3, 2), 0.5))
ERRORS = [
    ("error of an array", lambda: error(y), TypeError, r"^v must be a function"),
    ("error of a solution", lambda: error(None), TypeError, r"^v must be a function"),
    ("error of two values", lambda: error(lambda x: jnp.stack([x, x])), ValueError, r"^v must have one value at every"),
    ("a is negative", lambda: error(a=-1.0), ValueError, r"^a must be greater than 0"),
    ("a is text", lambda: error(a="a"), TypeError, r"^a must be a number"),
    ("a is NaN", lambda: error(a=nan), ValueError, r"^a must be finite"),
    ("a is a vector", lambda: plane_error(a=jnp.ones(2)), ValueError, r"^a must give a number .* or an n x n matrix"),
    ("a is indefinite", lambda: plane_error(a=-jnp.eye(2)), ValueError, r"^a must be positive, .* at the point"),
    ("a is not symmetric", lambda: plane_error(a=jnp.eye(2) + jnp.eye(2, k=1)), ValueError, r"^a must be .* symmetric"),
    ("a changes its sign", lambda: error(a=lambda x: x - 0.5), ValueError, r"^a must be positive, .* at the point"),
    ("a takes two", lambda: error(a=lambda x, y: x), ValueError, r"^a must be a function of a point"),
    ("c is negative", lambda: error(c=-1.0), ValueError, r"^c must be at least 0"),
    ("c is negative somewhere", lambda: error(c=lambda x: x - 0.5), ValueError, r"^c must be at least 0, but at the p"),
    ("c is a vector", lambda: plane_error(c=lambda x: x), ValueError, r"^c must give a number at every point"),
    ("f is a vector", lambda: error(f=jnp.ones(2)), ValueError, r"^f must be a single number"),
    ("f has vectors", lambda: plane_error(f=lambda x: x), ValueError, r"^f must give a number at every point"),
    ("f is None", lambda: error(f=None), TypeError, r"^f must be a number"),
    ("f is not finite", lambda: error(f=lambda x: jnp.log(x - 0.5)), ValueError, r"^the residual must be finite, but"),
    ("g is a vector", lambda: error(g=jnp.ones(2)), ValueError, r"^g must be a single number"),
    ("g has vectors", lambda: plane_error(g=lambda x: x), ValueError, r"^g must give a number at every point"),
    ("g takes two", lambda: error(g=lambda x, y: x), ValueError, r"^g must be a function of a point"),
    ("g is NaN", lambda: error(g=lambda x: nan * x), ValueError, r"^g - v must be finite on the boundary"),
    ("error on no box", lambda: error(low=1.0, high=0.0), ValueError, r"^low must lie below high"),
    ("error at few points", lambda: error(n=7), ValueError, r"^n must be at least 8"),
    ("error at half a point", lambda: error(n=8.5), TypeError, r"^n must be a whole number"),
    ("sides alone", lambda: plane_error(sides=plane), ValueError, r"^over must be given where sides is"),
    ("over and n", lambda: plane_error(over=(inside, inside)), ValueError, r"^n must be None where over"),
    ("over alone", lambda: plane_error(over=(inside,) * 2, n=None), ValueError, r"^sides must be given where over is"),
    ("over is one", lambda: plane_error(over=inside, sides=plane, n=None), TypeError, r"^over must be two measures"),
    (
        "over is drawn",
        lambda: plane_error(over=(riesz.monte_carlo((0, 0), (1, 1), 5),) * 2, sides=plane, n=None),
        TypeError,
        r"^over must be two measures of fixed points",
    ),
    (
        "over outside",
        lambda: plane_error(over=(riesz.points(2 * plane),) * 2, sides=plane, n=None),
        ValueError,
        r"^over must lie between low and high",
    ),
    ("over a line", lambda: plane_error(over=(over,) * 2, sides=plane, n=None), ValueError, r"^over and sides must"),
]

MARCHES = [
    ("slab is a number", lambda: march(3), TypeError, r"^slab must be a function"),
    ("slab returns a loss", lambda: march(lambda *slab: loss), TypeError, r"^slab must return a pair \(loss, D\), not"),
    ("slab returns nothing", lambda: march(lambda *slab: None), TypeError, r"^slab must return a pair .* not None"),
    ("slab returns D first", lambda: march(lambda *slab: (D, loss)), TypeError, r"^slab must return a pair"),
    ("slab returns no model", lambda: march(lambda *slab: (loss, None)), TypeError, r"^D must be a function"),
    ("one time", lambda: march(times=[0.0]), ValueError, r"^times must be a sequence of at least two numbers"),
    ("time is a number", lambda: march(times=1.0), ValueError, r"^times must be a sequence of at least two numbers"),
    ("times are text", lambda: march(times="ab"), TypeError, r"^times must be an array of numbers"),
    ("a time twice", lambda: march(times=[0, 1, 1]), ValueError, r"^times must increase, but times\[1\] is 1.0 and"),
    ("times fall", lambda: march(times=[0.0, 2.0, 1.0]), ValueError, r"^times must increase, .* times\[2\] is 1.0"),
    ("NaN time", lambda: march(times=[0.0, nan]), ValueError, r"^times must be finite, but row 1"),
    ("march without a start", lambda: march(theta0=None), TypeError, r"^theta0 must be given"),
    ("march from NaN", lambda: march(theta0=theta * nan), ValueError, r"^theta0 must be finite"),
    ("march from a solution", lambda: march(start=None), TypeError, r"^start must be left out of march"),
    ("march with restarts", lambda: march(restarts=riesz.Restarts(2)), TypeError, r"^restarts must be left out"),
    ("march with a validation", lambda: march(validation=loss), TypeError, r"^validation must be left out of march"),
    ("march with a loss", lambda: march(loss=loss), TypeError, r"^loss must be left out of march"),
    ("an option that is none", lambda: march(steps=3), TypeError, r"^steps must be left out of march, whose options"),
    ("march without steps", lambda: march(max_steps=-1), ValueError, r"^max_steps must be at least 0"),
    ("march in no time", lambda: march(max_seconds=0), ValueError, r"^max_seconds must be greater than 0"),
    ("progress of a march", lambda: march(progress="yes"), ValueError, r"^progress must be True, False or"),
    ("callback of a march", lambda: march(callback=1), TypeError, r"^callback must be a function"),
    ("march by a seed", lambda: march(key=1), TypeError, r"^key must be one random key"),
    ("march by a method that is none", lambda: march(method="adam"), ValueError, r"^method must be one of"),
    ("checkpoint of a march", lambda: march(checkpoint=3), TypeError, r"^checkpoint must be a folder"),
    ("log of a march", lambda: march(log=3), TypeError, r"^log must be a path"),
    ("beginning of no model", lambda: riesz.hard_initial(None, 0.0), TypeError, r"^D must be a function"),
    ("beginning is text", lambda: riesz.hard_initial(D, "u"), TypeError, r"^before must be a number"),
    ("beginning at NaN", lambda: riesz.hard_initial(D, 0.0, nan), ValueError, r"^t0 must be finite"),
    ("two times to begin", lambda: riesz.hard_initial(D, 0.0, x), ValueError, r"^t0 must be a single number"),
    ("third order", lambda: riesz.hard_initial(D, 0.0, order=3), ValueError, r"^order must be 1 or 2, .* not 3\."),
    ("order True", lambda: riesz.hard_initial(D, 0.0, order=True), ValueError, r"^order must be 1 or 2"),
    (
        "beginning of another shape",
        lambda: minimise(D=riesz.hard_initial(D, lambda t: jnp.ones(3) * t)),
        ValueError,
        r"^before must match D, but a point gives shapes \(3,\) and \(\)",
    ),
    ("local time of no model", lambda: riesz.local_time(3, 0.0), TypeError, r"^D must be a function"),
    ("local time since NaN", lambda: riesz.local_time(D, nan), ValueError, r"^t0 must be finite"),
    ("initial over an array", lambda: riesz.initial(0.0, x), TypeError, r"^over must be a measure"),
    ("initial over draws", lambda: riesz.initial(0.0, drawn), ValueError, r"^over must be fixed points for initial"),
    ("initial is text", lambda: riesz.initial("u", over), TypeError, r"^before must be a number"),
    ("initial of order 0", lambda: riesz.initial(0.0, over, 0), ValueError, r"^order must be 1 or 2"),
    ("initial fails", lambda: riesz.initial(lambda t: t[0], over), ValueError, r"^before must be a function of the"),
    ("initial is NaN", lambda: riesz.initial(lambda t: t / (t - x[3]), over), ValueError, r"^before must be .* row 3"),
    ("initial of another shape", lambda: minimise(riesz.initial(jnp.ones(3), over)), ValueError, r"^data must match"),
]

CALLS = MEASURES + LOSSES + MODELS + PARTS + METHODS + PROBLEMS + OPTIONS + MANY + SPACES + MARCHES + ERRORS


@pytest.fixture
def uncompiled(monkeypatch):
    """None of the solver's programs may be called."""

    def forbidden(*args, **kwargs):
        raise AssertionError("a program of the solver was called")

    for program in ("start", "advance", "measure"):
        monkeypatch.setattr(f"riesz._running.run.{program}", forbidden)


@pytest.mark.parametrize(("call", "error", "pattern"), [pytest.param(*rest, id=name) for name, *rest in CALLS])
def test_a_wrong_call_is_answered_with_one_sentence(uncompiled, call, error, pattern):
    check_sentence(call, error, pattern)


@pytest.mark.parametrize("call", [minimise, many])
def test_a_right_call_reaches_the_programs(uncompiled, call):
    with pytest.raises(AssertionError, match="program of the solver"):
        call()


def test_the_cause_of_a_failure_stays_attached():
    def density(z):
        raise TypeError("my own mistake")

    with pytest.raises(ValueError, match=r"^density .* in the loss: my own mistake\.$") as caught:
        minimise(integral(density))
    assert isinstance(caught.value.__cause__, TypeError)


def test_errors_that_are_no_mismatch_are_the_users_own():
    with pytest.raises(KeyError):
        minimise(loss, *riesz.parametrise(lambda p, x: p["b"] * x, {"a": 1.0}))


def test_numbers_of_numpy_are_not_mixed_dtypes():
    """np.float64 is what a loop over np.logspace gives; it must not turn float32 parameters into float64."""
    number = np.float64(0.1)
    method = riesz.nhb(beta=number, filter=riesz.Floor(number), step_size=riesz.Clipped(number))
    solution = minimise(number * single_loss, theta0=single(theta), method=method, max_steps=2, target=number / 1e9)
    assert solution.theta.dtype == jnp.float32
    assert solution.steps == 2


def test_metrics_may_be_whole_numbers_and_truth_values():
    metrics = {"largest": jnp.argmax, "positive": lambda t: t[0] > 0}
    history = minimise(method="gd", max_steps=2, metrics=metrics, progress=False).history
    assert history["largest"].dtype == int and history["positive"].dtype == bool
    assert history["largest"][0] == np.argmax(theta) and history["positive"][0] == (theta[0] > 0)


def swapped(a):
    """The same numbers in the byte order that this machine does not use."""
    a = np.asarray(a)
    return a.astype(a.dtype.newbyteorder())


pixels = np.linspace(0.0, 1.0, 12).reshape(6, 2)
labels = np.arange(6) % 3
line, ends = riesz.gauss_legendre(0.0, 1.0, 5), (np.zeros(2), np.array([1.0, 2.0]))
# What takes an array, as functions of how an array is handed in.
TAKERS = {
    "points": lambda a: riesz.points(a(pixels), data=a(pixels), weights=a(np.arange(6.0))),
    "points in a list": lambda a: riesz.points([a(row) for row in pixels]),
    "points in single precision": lambda a: riesz.points(a(pixels.astype(np.float32))),
    "whole-number points": lambda a: riesz.points(a(labels), data=a(labels)),
    "labels": lambda a: riesz.softmax(riesz.points(a(pixels), data=a(labels))),
    "a grid": lambda a: riesz.grid(*map(a, ends), 3),
    "an interval": lambda a: riesz.grid(a(0.0), a(1.0), 3),
    "a quadrature": lambda a: riesz.gauss_legendre(*map(a, ends), 3),
    "draws": lambda a: riesz.monte_carlo(*map(a, ends), 3),
    "a boundary": lambda a: riesz.boundary(*map(a, ends), 3),
    "a sequence": lambda a: riesz.sobol(*map(a, ends), 4),
    "a simplex": lambda a: riesz.simplex(a(corner), 3),
    "a disc": lambda a: riesz.disc(a(ends[1]), a(1.0), 3),
    "a polygon": lambda a: riesz.polygon(a(corner), 3),
    "a bubble": lambda a: riesz.box_bubble(*map(a, ends)),
    "a bubble on a line": lambda a: riesz.box_bubble(a(0.0), a(1.0)),
    "a period": lambda a: riesz.periodic(D, a(2.0)),
    "periods": lambda a: riesz.periodic(D, a(ends[1])),
    "frequencies": lambda a: riesz.fourier_features(D, a(pixels)),
    "frequencies of sines": lambda a: riesz.sine_mlp(key, (2, 3, 1), a(ends[1]))[1],
    "a stage": lambda a: riesz.stage(D, a(theta), (D, a(theta)), a(0.5)),
    "a lift": lambda a: riesz.hard_boundary(D, jnp.sin, a(2.0)),
    "a beginning": lambda a: riesz.hard_initial(D, a(2.0), a(1.0)),
    "a beginning in the loss": lambda a: riesz.initial(a(2.0), over),
    "a time": lambda a: riesz.local_time(D, a(2.0)),
    "a basis": lambda a: riesz.Legendre(a(0.0), a(1.0), 3),
    "a source": lambda a: riesz.residual(riesz.identity, a(2.0), line),
    "coefficients": lambda a: riesz.ritz(a(2.0), a(1.0), line),
    "a delta": lambda a: riesz.huber(over, a(0.1)),
    "a factor": lambda a: a(2.0) * loss,
    "a filter": lambda a: riesz.Floor(a(1e-3)),
    "a derivative": lambda a: riesz.derivative(jnp.sin)(a(2.0)),
    "a gradient": lambda a: riesz.gradient(lambda x: jnp.sum(x**2))(a(pixels)),
    "a Laplacian": lambda a: riesz.laplacian(lambda x: jnp.sum(x**3))(a(ends[1])),
    "a tangent space": lambda a: riesz.tangent_space(loss, D, a(theta)).psi,
    "a start": lambda a: minimise(method="gd", theta0=a(theta), max_steps=2, progress=False).theta,
    "starts": lambda a: many(a(thetas), method="gd", max_steps=2, progress=False).theta,
}


@pytest.mark.at_once(6)
@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS.keys())
def test_the_other_byte_order_gives_the_same_numbers(take):
    assert not swapped(pixels).dtype.isnative
    given, expected = (jax.tree.leaves(eqx.filter(take(a), eqx.is_array)) for a in (swapped, np.asarray))
    assert len(given) == len(expected) > 0
    for a, b in zip(given, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
