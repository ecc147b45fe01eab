"""Reference solutions of evolution equations on a grid of points, with the floor that two resolutions show.

- Burgers: the formula of Cole and Hopf, by Gauss-Hermite quadrature of two orders.
- Periodic semilinear equations u_t = L u + N(u): ETDRK4 (Cox and Matthews; phi functions by contour integrals, after
  Kassam and Trefethen) in Fourier modes, dealiased, at two resolutions.

They are kept in out/reference-NAME.npz. Run this file to print the floors.
"""

import pathlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import roots_hermite

PI = np.pi
OUT = pathlib.Path(__file__).parent.parent / "out"
TIMES, PLACES = 101, 512


@dataclass
class Reference:
    """Values u of shape (times, places) on a grid, and their relative difference from those at a lower resolution."""

    t: np.ndarray
    x: np.ndarray
    u: np.ndarray
    floor: float


def cole_hopf(nu: float, t: np.ndarray, x: np.ndarray, order: int) -> np.ndarray:
    """Burgers' equation from -sin(pi x), as a quotient of two Gaussian integrals."""
    z, w = roots_hermite(order)
    y = x[:, None] - 2 * np.sqrt(nu * t[:, None, None]) * z
    exponent = -np.cos(PI * y) / (2 * PI * nu)
    f = w * np.exp(exponent - exponent.max(-1, keepdims=True))
    return -np.sum(np.sin(PI * y) * f, -1) / np.sum(f, -1)


def burgers(nu: float) -> Reference:
    """Burgers' equation on (-1, 1) x (0, 1)."""
    t, x = np.linspace(0, 1, TIMES), np.linspace(-1, 1, PLACES + 1)
    return _compared(t, x, cole_hopf(nu, t, x, 1200), cole_hopf(nu, t, x, 600))


@dataclass
class Semilinear:
    """u_t = L u + N(u), periodic on (low, low + period): L by its symbol of the wave number, N in Fourier modes."""

    low: float
    period: float
    symbol: Callable[[np.ndarray], np.ndarray]
    nonlinear: Callable[[np.ndarray, Callable, Callable, np.ndarray], np.ndarray]
    """N of the modes of u, in modes; `values(modes)`, `modes(values)` and i k are given."""
    start: Callable[[np.ndarray], np.ndarray]
    end: float
    degree: int
    """The degree of N: a share 2 / (degree + 1) of the modes is free of aliases."""


def etdrk4(problem: Semilinear, points: int, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The solution at TIMES instants and PLACES places, with `steps` steps between two instants."""
    k = 2j * PI / problem.period * np.arange(points // 2 + 1)
    kept = np.arange(k.size) < points / (problem.degree + 1)
    # The modes of the start are taken from a far finer grid: a kink in it would alias.
    fine = max(points, 2**17)
    start = problem.start(problem.low + problem.period * np.arange(fine) / fine)
    v = np.where(kept, np.fft.rfft(start)[: k.size] * (points / fine), 0)
    h = problem.end / (TIMES - 1) / steps
    L = h * problem.symbol(k)
    r = L[:, None] + np.exp(2j * PI * (np.arange(64) + 0.5) / 64)
    mean = lambda values: values.mean(1)
    half, whole = np.exp(L / 2), np.exp(L)
    Q = h * mean((np.exp(r / 2) - 1) / r)
    f1 = h * mean((-4 - r + np.exp(r) * (4 - 3 * r + r**2)) / r**3)
    f2 = h * mean((2 + r + np.exp(r) * (r - 2)) / r**3)
    f3 = h * mean((-4 - 3 * r - r**2 + np.exp(r) * (4 - r)) / r**3)
    values = lambda modes: np.fft.irfft(modes, points)
    N = lambda v: np.where(kept, problem.nonlinear(v, values, np.fft.rfft, k), 0)

    def step(v):
        Nv = N(v)
        a = half * v + Q * Nv
        Na = N(a)
        b = half * v + Q * Na
        Nb = N(b)
        c = half * a + Q * (2 * Nb - Nv)
        return whole * v + f1 * Nv + 2 * f2 * (Na + Nb) + f3 * N(c)

    stored = [v]
    for _ in range(TIMES - 1):
        for _ in range(steps):
            v = step(v)
        stored.append(v)
    # On PLACES places by leaving places out.
    every = points // PLACES
    x = problem.low + problem.period * np.arange(PLACES) / PLACES
    u = np.array([problem.start(x), *(np.fft.irfft(v, points)[::every] for v in stored[1:])])
    return np.linspace(0, problem.end, TIMES), x, u


PERIODIC = {
    "allen-cahn": (
        Semilinear(
            -1.0,
            2.0,
            lambda k: 1e-4 * k**2 + 5,
            lambda v, values, modes, k: -5 * modes(values(v) ** 3),
            lambda x: x**2 * np.cos(PI * x),
            1.0,
            3,
        ),
        [(4096, 40), (8192, 40)],
    ),
    "kdv": (
        Semilinear(
            -1.0,
            2.0,
            lambda k: -(0.022**2) * k**3,
            lambda v, values, modes, k: -k / 2 * modes(values(v) ** 2),
            lambda x: np.cos(PI * x),
            1.0,
            2,
        ),
        [(512, 100), (1024, 200)],
    ),
    "kuramoto-sivashinsky": (
        Semilinear(
            0.0,
            2 * PI,
            lambda k: -100 / 16**2 * k**2 - 100 / 16**4 * k**4,
            lambda v, values, modes, k: -100 / 16 * k / 2 * modes(values(v) ** 2),
            lambda x: np.cos(x) * (1 + np.sin(x)),
            1.0,
            2,
        ),
        [(512, 200), (1024, 400)],
    ),
}


def _compared(t, x, u, coarse) -> Reference:
    return Reference(t, x, u, float(np.linalg.norm(u - coarse) / np.linalg.norm(u)))


def reference(name: str) -> Reference:
    """The reference of that name, computed once."""
    path = OUT / f"reference-{name}.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as file:
            return Reference(file["t"], file["x"], file["u"], float(file["floor"]))
    if name in PERIODIC:
        problem, (coarse, fine) = PERIODIC[name]
        t, x, u = etdrk4(problem, *fine)
        found = _compared(t, x, u, etdrk4(problem, *coarse)[2])
    else:
        found = burgers({"burgers": 0.01 / PI, "burgers-0.01": 0.01}[name])
    path.parent.mkdir(exist_ok=True)
    np.savez(path, t=found.t, x=found.x, u=found.u, floor=found.floor)
    return found


if __name__ == "__main__":
    for name in ("burgers", "burgers-0.01", *PERIODIC):
        print(f"{name}: relative difference of two resolutions {reference(name).floor:.1e}", flush=True)
