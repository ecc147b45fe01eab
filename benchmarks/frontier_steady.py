"""Problems of frontier.py with smooth solutions in closed form, most of them without a time that has to be followed."""

from equations import equation
from frontier_problem import Clock, Problem

# Poisson's and the heat equation on a square, as benchmarks/equations.py has them. ------------------------------------


def on_a_square(name, known, published, bar, seconds):
    """One of the problems of equations.py, with a tanh network of one hidden layer."""
    made = equation(name)

    def solve(seed):
        clock = Clock(seconds)
        found = clock.minimise(made.loss, made.D, made.start(seed))
        return clock.known(found, made.error, equation(name, finer=5).loss)

    setup = "tanh 2-64-1, Glorot, 32 x 32 Gauss-Legendre points, 64 on each side"
    return Problem(known, published, bar, seconds, solve, setup)


def poisson_2d():
    return on_a_square("poisson", "Poisson 2d", "1.2e-7 (ENGD)", 1e-12, 120.0)


def heat():
    return on_a_square("heat", "heat 1+1d", "8.8e-8 (ENGD)", 1e-11, 120.0)


PROBLEMS = {"poisson-2d": poisson_2d, "heat": heat}
