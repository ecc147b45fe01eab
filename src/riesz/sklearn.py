"""Scikit-learn estimators: networks for regression and classification, fitted by riesz in double precision.

Both minimise, over the parameters of a network v of standardised inputs,

    sum_i w_i l(v(x_i), y_i) / sum_i w_i + alpha/2 |weights of v|^2

with squared errors of standardised targets, or cross-entropy. Only the weights are penalised, and towards zero: with a
large alpha the network is the constant that fits best, wherever it starts.
"""

import abc
import dataclasses
import functools
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit
from scipy.special import softmax as shares
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from . import _check
from ._doors.minimise import minimise
from ._methods.names import as_method, auto
from ._methods.result import Result
from ._methods.schemes import AbstractMethod
from ._problem.integral import AbstractLoss
from ._problem.losses import least_squares, logistic, softmax
from ._problem.measures import points
from ._problem.models import mlp
from ._problem.residual_vector import ResidualVector
from ._running.solution import Solution
from ._types import Parametrisation, Vector

AT_ONCE = 4096
"""Predictions are made for so many samples at a time, and for fewer filled up to a power of two: few programs."""
WINDOW = 20
"""Over so many steps the lowest loss must fall by more than `tol` of it."""


def _networks(key: Any, sizes: tuple[int, ...], activation: Any) -> tuple[Parametrisation, Vector]:
    """Networks, and a start with weights and biases of variance 2/(inputs + outputs) of their layers.

    Weights are Glorot's. With his biases, zero, the start would be odd, and all steps on data that are odd too.
    """
    D, theta0 = mlp(key, sizes, activation)
    layers = [(n_in, n_out, np.sqrt(2 / (n_in + n_out))) for n_in, n_out in pairwise(sizes)]
    weights = [np.full(n_in * n_out, deviation) for n_in, n_out, deviation in layers]
    biases = [np.full(n_out, deviation) for _, n_out, deviation in layers]
    return D, theta0 * np.concatenate(weights + biases)


def _all_weights(v: Any) -> jax.Array:
    return jnp.concatenate([jnp.ravel(weight) for weight in v.weights])


@functools.partial(jax.jit, static_argnums=0)
def _at_points(D: Parametrisation, theta: Vector, x: jax.Array) -> jax.Array:
    return jax.vmap(D(theta))(x)


def _is_level(tol: float, steps: int, solution: Solution) -> bool:
    """Whether the lowest loss has fallen by no more than tol of it over the last steps; single steps may climb."""
    losses = solution.history["loss"]
    return steps > WINDOW and bool(losses[:-WINDOW].min() - losses.min() <= tol * abs(losses.min()))


@dataclasses.dataclass(frozen=True)
class Samples:
    """Distinct samples in one order, with the share of each in the whole."""

    X: np.ndarray
    Y: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> "Samples":
        """Equal samples become one with the sum of their weights, and those without weight are left out.

        So a weight of two is the same as a sample given twice, to the last bit, and the order of samples plays no role;
        nor is a sample that is given twice both fitted and validated on.
        """
        rows, which = np.unique(np.column_stack([X, Y])[weights > 0], axis=0, return_inverse=True)
        summed = np.bincount(which.reshape(-1), weights[weights > 0])
        return cls(rows[:, : X.shape[1]], rows[:, X.shape[1] :], summed)._scaled()

    def _scaled(self) -> "Samples":
        return dataclasses.replace(self, shares=self.shares / self.shares.sum())

    def split(self, fraction: float, classes: bool, rng: np.random.RandomState) -> tuple["Samples", "Samples"]:
        """The samples to fit and those to validate on, with the same shares of classes where each has two samples."""
        if len(self.X) < 2:
            raise ValueError("X must hold at least 2 distinct samples with early_stopping=True, but n_samples=1.")
        labels = self.Y[:, 0] if classes and np.unique(self.Y, return_counts=True)[1].min() > 1 else None
        held = min(max(round(fraction * len(self.X)), 1), len(self.X) - 1)
        if labels is not None and min(held, len(self.X) - held) < len(np.unique(labels)):
            labels = None
        parts = train_test_split(np.arange(len(self.X)), test_size=held, random_state=rng, stratify=labels)
        return tuple(Samples(self.X[part], self.Y[part], self.shares[part])._scaled() for part in parts)  # type: ignore[return-value]


class AbstractNetwork(BaseEstimator, abc.ABC):
    """What both estimators share: their parameters, the fit, and the values of the network."""

    def __init__(
        self,
        hidden: Sequence[int] = (10,),
        activation: str | Callable[[Any], Any] = "tanh",
        alpha: float = 1e-4,
        early_stopping: bool = False,
        validation_fraction: float = 0.25,
        patience: int = 20,
        method: AbstractMethod | str | None = None,
        max_steps: int = 200,
        tol: float = 1e-3,
        random_state: Any = None,
    ):
        self.hidden = hidden
        self.activation = activation
        self.alpha = alpha
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.method = method
        self.max_steps = max_steps
        self.tol = tol
        self.random_state = random_state

    def _check_parameters(self) -> None:
        """Refuse parameters that are wrong, but for those that `mlp` and `as_method` refuse."""
        if not isinstance(self.hidden, Sequence | np.ndarray) or isinstance(self.hidden, str):
            raise TypeError(f"hidden must list the sizes of layers, such as (10,), not {_check.shown(self.hidden)}.")
        for size in self.hidden:
            _check.count("hidden", size)
        _check.scalar("alpha", self.alpha, least=0.0)
        _check.scalar("tol", self.tol, least=0.0)
        _check.scalar("validation_fraction", self.validation_fraction, above=0.0, below=1.0)
        _check.count("patience", self.patience)
        _check.count("max_steps", self.max_steps)
        if not isinstance(self.early_stopping, bool | np.bool_):
            raise TypeError(f"early_stopping must be True or False, not {_check.shown(self.early_stopping)}.")

    def _checked_weights(self, sample_weight: Any, X: np.ndarray) -> np.ndarray:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not (weights > 0).any():
            raise ValueError("sample_weight must not be zero for every sample.")
        return weights

    def _fit(self, samples: Samples, loss: Callable[[Any], AbstractLoss], values: int, classes: bool) -> None:
        """Fit a network with so many values."""
        self._check_parameters()
        rng, held = check_random_state(self.random_state), None
        if self.early_stopping:
            samples, held = samples.split(float(self.validation_fraction), classes, rng)
        self.x_scaler_ = StandardScaler().fit(samples.X, sample_weight=samples.shares)
        self._fit_targets(samples)
        over = lambda part: points(self._inputs(part.X), data=self._standard(part.Y), weights=part.shares)
        # Double precision is on here alone where it is off.
        with jax.enable_x64(True):
            sizes = (samples.X.shape[1], *map(int, self.hidden), values)
            D, theta0 = _networks(jax.random.key(rng.randint(2**31 - 1)), sizes, self.activation)
            whole = loss(over(samples))
            if self.alpha > 0:
                whole = whole + ResidualVector(_all_weights) * float(self.alpha)
            method = as_method(self.method) if self.method is not None else None
            if method is None and held is None:
                # A penalised loss does not vanish, so that there is nothing to find for long steps.
                method = auto(long=False)
            told: dict[str, Any] = {"progress": False}
            if self.tol > 0:
                told |= {"callback": functools.partial(_is_level, float(self.tol))}
            if held is not None:
                told |= {"validation": loss(over(held)), "patience": int(self.patience)}
            solution = minimise(whole, D, theta0, method, int(self.max_steps), **told)
        self._keep(solution)

    def _keep(self, solution: Solution) -> None:
        """Keep a solution, without the samples, and with NumPy's arrays, whose digits survive being pickled."""
        result = solution.result
        if result is Result.INTERRUPTED:
            raise KeyboardInterrupt
        if result is Result.STOPPED_BY_CALLBACK:
            result = Result.CONVERGED_LOSS
        if result is Result.STEP_LIMIT:
            warnings.warn(
                f"{type(self).__name__} made max_steps={self.max_steps} steps and its loss was still falling: raise "
                "max_steps or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        arrays = {name: np.array(getattr(solution, name)) for name in ("theta", "loss", "last")}
        self.solution_ = dataclasses.replace(solution, **arrays, result=result, problem=None, state=None)
        self.n_iter_, self.loss_ = solution.steps, float(solution.loss)

    @abc.abstractmethod
    def _fit_targets(self, samples: Samples) -> None:
        """Find the units of targets."""

    @abc.abstractmethod
    def _standard(self, Y: np.ndarray) -> np.ndarray:
        """Targets as the loss takes them."""

    def _inputs(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.x_scaler_.transform(X))

    def _values(self, X: Any) -> np.ndarray:
        """What the network gives for every sample."""
        check_is_fitted(self, "solution_")
        X = self._inputs(np.asarray(validate_data(self, X, dtype=np.float64, reset=False)))
        found = []
        with jax.enable_x64(True):
            for part in np.split(X, range(AT_ONCE, len(X), AT_ONCE)):
                filled = np.pad(part, [(0, 2 ** (len(part) - 1).bit_length() - len(part)), (0, 0)])
                found.append(np.asarray(_at_points(self.solution_.D, self.solution_.theta, filled))[: len(part)])
        return np.concatenate(found)


class Regressor(RegressorMixin, AbstractNetwork):
    r"""A network fitted to numbers, $\sum_i w_i \frac12 |v(x_i) - y_i|^2 / \sum_i w_i + \frac\alpha2 |A|^2$.

    Inputs and targets are standardised inside, so that units do not matter; A are the weights of the network in these
    units, not its biases. A weight of two is the same as a sample given twice, and the order of samples plays no role.

    **Arguments:**

    - `hidden`: the sizes of the hidden layers; `()` for a linear model.
    - `activation`: a name (`"tanh"`, `"sigmoid"`, `"relu"`, ...) or a function of JAX's arrays.
    - `alpha`: the penalty on weights; 0 for none. It stands beside a mean over samples, so that it does not depend on
      their number.
    - `early_stopping`: whether to hold samples back, and to keep the network that is best on them.
    - `validation_fraction`, `patience`: the share of distinct samples that are held back, and for how many steps the
      loss on them may not improve.
    - `method`: a method or its name; `riesz.auto(long=False)` by default, with careful steps where samples are held
      back, as `riesz.minimise` makes them.
    - `max_steps`: the step limit; a `ConvergenceWarning` says where it was reached.
    - `tol`: a run ends where twenty steps have lowered the loss by no more than this share of it; 0 to
      leave the end to the method.
    - `random_state`: a number for the same start, and the same samples held back, in every fit.

    **Attributes:** `solution_` is what `riesz.minimise` returned, `solution_.function` the network between standardised
    inputs and targets; `n_iter_` the number of steps, `loss_` the loss, `x_scaler_` and `y_scaler_` the units;
    `n_features_in_`, `feature_names_in_`, `n_outputs_`.

    ```python
    model = riesz.sklearn.Regressor(hidden=(20,), random_state=0).fit(X, y)
    model.predict(X), model.score(X, y)
    ```
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Regressor":
        """Fit the network to targets y, of shape (samples,) or (samples, outputs)."""
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        weights = self._checked_weights(sample_weight, X)
        Y = np.asarray(y, np.float64).reshape(len(y), -1)
        self.n_outputs_, self._is_flat = Y.shape[1], y.ndim == 1
        self._fit(Samples.of(X, Y, weights), least_squares, self.n_outputs_, classes=False)
        return self

    def _fit_targets(self, samples: Samples) -> None:
        self.y_scaler_ = StandardScaler().fit(samples.Y, sample_weight=samples.shares)

    def _standard(self, Y: np.ndarray) -> np.ndarray:
        return np.asarray(self.y_scaler_.transform(Y))

    def predict(self, X: Any) -> np.ndarray:
        """The targets that the network gives."""
        z = self._values(X)
        y = np.asarray(self.y_scaler_.inverse_transform(z.reshape(-1, self.n_outputs_)))
        return y[:, 0] if self._is_flat else y


class Classifier(ClassifierMixin, AbstractNetwork):
    r"""A network fitted to classes by cross-entropy, $\sum_i w_i \ell(v(x_i), y_i) / \sum_i w_i + \frac\alpha2 |A|^2$.

    Of two classes the network gives one logit, of K classes K of them. Inputs are standardised inside, so that units do
    not matter; A are the weights of the network, not its biases. A weight of two is the same as a sample given twice,
    and the order of samples plays no role.

    **Arguments:** as for `Regressor`. Held-back samples have the same shares of classes as the others.

    **Attributes:** as for `Regressor`, and `classes_`, those with a sample of positive weight.

    ```python
    model = riesz.sklearn.Classifier(hidden=(20,), early_stopping=True, random_state=0).fit(X, labels)
    model.predict(X), model.predict_proba(X), model.score(X, labels)
    ```
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Classifier":
        """Fit the network to labels y, numbers or text."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        weights = self._checked_weights(sample_weight, X)
        X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
        self.classes_, labels = np.unique(y, return_inverse=True)
        count = len(self.classes_)
        if count < 2:
            raise ValueError(
                "y must hold at least two classes with a sample of positive weight, but it holds one class."
            )
        loss = logistic if count == 2 else softmax
        self._fit(Samples.of(X, labels[:, None], weights), loss, 1 if count == 2 else count, classes=True)
        return self

    def _fit_targets(self, samples: Samples) -> None:
        """Labels have no units."""

    def _standard(self, Y: np.ndarray) -> np.ndarray:
        return Y[:, 0].astype(int)

    def decision_function(self, X: Any) -> np.ndarray:
        """The logits: of shape (samples,) for two classes, (samples, classes) for more."""
        return self._values(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probabilities of all classes, of shape (samples, classes)."""
        z = self.decision_function(X)
        return np.column_stack([expit(-z), expit(z)]) if z.ndim == 1 else shares(z, axis=1)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable classes."""
        z = self.decision_function(X)
        return self.classes_[(z > 0).astype(int) if z.ndim == 1 else np.argmax(z, axis=1)]
