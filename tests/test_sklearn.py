"""The scikit-learn estimators pass scikit-learn's own checks, and its closed forms and networks are their oracles."""

import os
import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_iris, load_wine, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import riesz
from riesz.sklearn import Classifier, Regressor
from spoken import check_sentence, run_page

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 100.0]
Y = 50 + 3 * np.sin(X[:, 0]) * X[:, 1] + RANDOM.normal(size=40)
LABELS = np.digitize(Y, np.quantile(Y, [0.3, 0.6]))
WEIGHTS = RANDOM.integers(0, 4, size=40)

AT_ONCE = """
    check_classifiers_one_label_sample_weights check_complex_data check_dict_unchanged check_estimator_tags_renamed
    check_estimator_cloneable check_estimator_repr check_estimator_sparse_tag check_estimators_empty_data_messages
    check_estimators_fit_returns_self check_estimators_unfitted check_fit1d check_get_params_invariance
    check_no_attributes_set_in_init check_parameters_default_constructible
    check_readonly_memmap_input check_requires_y_none check_set_params check_supervised_y_no_nan check_valid_tag_types
""".split()
"""Those of scikit-learn's checks that compile few programs."""
APART = "check_array_api_input"
"""The check that needs a variable of the environment before SciPy is imported, so that it has a process of its own."""


def checks():
    for estimator in (Regressor(random_state=0), Classifier(random_state=0)):
        for copy, check in estimator_checks_generator(estimator):
            name, told = check.func.__name__, "-".join(f"{key}={value}" for key, value in check.keywords.items())
            if name != APART:
                marks = () if name in AT_ONCE else pytest.mark.slow
                yield pytest.param(copy, check, id=f"{type(copy).__name__}-{name}{told and '-'}{told}", marks=marks)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


PROGRAM = f"""
from sklearn.utils.estimator_checks import estimator_checks_generator
from riesz.sklearn import Classifier, Regressor

for estimator in (Regressor(), Classifier()):
    found = [pair for pair in estimator_checks_generator(estimator) if pair[1].func.__name__ == {APART!r}]
    for copy, check in found:
        check(copy)
    print(len(found))
"""


@pytest.mark.slow
def test_the_check_that_needs_a_process_of_its_own():
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "1"]


def standardised(A):
    return StandardScaler().fit_transform(A.reshape(len(A), -1)).reshape(A.shape)


def test_a_network_without_hidden_layers_is_ridge_regression():
    alpha, inputs = 0.1, standardised(X)
    model = Regressor(hidden=(), alpha=alpha, tol=0.0).fit(X, Y)
    ridge = Ridge(alpha=alpha * len(X)).fit(inputs, standardised(Y))
    np.testing.assert_allclose(model.predict(X), Y.mean() + Y.std() * ridge.predict(inputs), rtol=1e-9)


@pytest.mark.at_once(1)
@pytest.mark.parametrize("labels", [LABELS, LABELS > 0], ids=["three classes", "two classes"])
def test_a_network_without_hidden_layers_is_logistic_regression(labels):
    alpha, inputs = 0.1, standardised(X)
    model = Classifier(hidden=(), alpha=alpha, tol=0.0).fit(X, labels)
    oracle = LogisticRegression(C=1 / (alpha * len(X)), tol=1e-12, max_iter=1000).fit(inputs, labels)
    np.testing.assert_allclose(model.predict_proba(X), oracle.predict_proba(inputs), rtol=1e-6)
    np.testing.assert_array_equal(model.predict(X), oracle.predict(inputs))


def test_with_a_large_penalty_predictions_are_means():
    """Only weights are penalised, and towards zero, so that means and shares are left."""
    fitted = Regressor(alpha=1e8, random_state=0).fit(X, Y)
    np.testing.assert_allclose(fitted.predict(X), Y.mean(), rtol=1e-6)


@pytest.mark.slow
def test_with_a_large_penalty_probabilities_are_shares_of_classes():
    shares = np.bincount(LABELS) / len(LABELS)
    fitted = Classifier(alpha=1e8, random_state=0).fit(X, LABELS)
    np.testing.assert_allclose(fitted.predict_proba(X), np.tile(shares, (40, 1)), rtol=1e-5)


def test_the_loss_is_what_the_docs_say():
    model = Regressor(alpha=0.01, random_state=0).fit(X, Y)
    v = model.solution_.function
    errors = np.asarray(jax.vmap(v)(model.x_scaler_.transform(X))) - standardised(Y)
    penalty = sum(np.sum(np.asarray(weight) ** 2) for weight in v.weights)
    assert model.loss_ == pytest.approx(0.5 * np.mean(errors**2) + 0.5 * 0.01 * penalty, rel=1e-12)


@pytest.mark.at_once(1)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("stops", [False, True])
def test_weights_are_repetitions_in_any_order(stops):
    model = Regressor(early_stopping=stops, max_steps=30, tol=1e-2, random_state=0)
    order = np.random.default_rng(1).permutation(WEIGHTS.sum())
    weighted = clone(model).fit(X, Y, sample_weight=WEIGHTS)
    repeated = clone(model).fit(X.repeat(WEIGHTS, axis=0)[order], Y.repeat(WEIGHTS)[order])
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_units_play_no_role():
    model = Regressor(max_steps=30, tol=1e-2, random_state=0)
    here, there = clone(model).fit(X, Y), clone(model).fit(1024 * X, 0.125 * Y)
    np.testing.assert_allclose(8 * there.predict(1024 * X), here.predict(X), rtol=1e-9)


def test_many_digits_without_double_precision_elsewhere():
    """The flag of JAX is neither needed nor touched, and pickling in single precision loses no digit.

    The data are odd, so that a start without biases would stay odd.
    """
    x = np.linspace(-1.0, 1.0, 60)[:, None]
    y = np.sin(3 * x[:, 0])
    with jax.enable_x64(False):
        model = Regressor(alpha=0.0, method=riesz.auto(long=False), tol=0.0, max_steps=100, random_state=0)
        with pytest.warns(ConvergenceWarning, match="max_steps=100"):
            model.fit(x, y)
        assert jnp.ones(1).dtype == jnp.float32 and not jax.config.jax_enable_x64
        found = model.predict(x)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(x), found)
    assert found.dtype == np.float64
    assert np.max(np.abs(found - y)) < 1e-6
    np.testing.assert_array_equal(model.predict(x), found)


@pytest.mark.slow
def test_a_fitted_model_keeps_no_samples():
    few, many = (Regressor(hidden=(), random_state=0).fit(np.tile(X, (n, 1)), np.tile(Y, n) + 0.01 * np.arange(40 * n))
                 for n in (1, 50))  # fmt: skip
    assert len(pickle.dumps(many)) < len(pickle.dumps(few)) + 1000


def test_early_stopping_keeps_the_network_that_is_best_on_what_was_held_back():
    model = Classifier(early_stopping=True, patience=5, tol=0.0, random_state=0).fit(X, LABELS)
    validation = model.solution_.history["validation"]
    assert model.solution_.result is riesz.Result.VALIDATED
    assert model.n_iter_ == np.argmin(validation) + 5 == len(validation) - 1
    again = clone(model).set_params(max_steps=int(np.argmin(validation)), patience=100)
    with pytest.warns(ConvergenceWarning):
        again.fit(X, LABELS)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.slow
def test_several_targets_are_fitted_at_once():
    targets = np.column_stack([Y, X[:, 0] ** 2])
    model = Regressor(random_state=0).fit(X, targets)
    assert model.predict(X).shape == (40, 2) and model.n_outputs_ == 2
    assert model.score(X, targets) > 0.9
    assert Regressor(hidden=()).fit(X, Y[:, None]).predict(X).shape == (40, 1)


def test_labels_may_be_text_and_classes_without_weight_are_left_out():
    names = np.array(["blue", "green", "red"])[LABELS]
    model = Classifier(hidden=()).fit(X, names, sample_weight=(names != "green").astype(float))
    assert list(model.classes_) == ["blue", "red"] and set(model.predict(X)) == {"blue", "red"}
    assert model.decision_function(X).shape == (40,) and model.predict_proba(X).shape == (40, 2)


def test_a_grid_search_over_a_pipeline():
    pipeline = make_pipeline(PolynomialFeatures(2), Regressor(hidden=(), random_state=0))
    search = GridSearchCV(pipeline, {"regressor__alpha": [1e-4, 1e4]}, cv=2).fit(X, Y)
    assert search.best_params_ == {"regressor__alpha": 1e-4} and search.best_score_ > 0.5


DATA = {
    "diabetes": (load_diabetes, {"alpha": 0.1}, 0.3),
    "iris": (load_iris, {"early_stopping": True}, 0.9),
    "wine": (load_wine, {"early_stopping": True}, 0.95),
    "moons": (lambda return_X_y: make_moons(300, noise=0.2, random_state=0), {"early_stopping": True}, 0.93),
    "digits": (load_digits, {"early_stopping": True}, 0.93),
}
"""Data sets, with how to fit them, and the least score on samples that were not seen."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("data", "told", "least"), DATA.values(), ids=DATA)
def test_data_sets_beside_scikit_learns_networks(data, told, least):
    """On samples that were not seen, no worse than its own network of the same sizes, but for chance."""
    inputs, y = data(return_X_y=True)
    classes = y.dtype.kind == "i"
    fit_on, see, y_fit, y_see = train_test_split(inputs, y, random_state=0, stratify=y if classes else None)
    model = (Classifier if classes else Regressor)(**told, random_state=0).fit(fit_on, y_fit)
    network = (MLPClassifier if classes else MLPRegressor)(hidden_layer_sizes=(10,), random_state=0, max_iter=2000)
    oracle = make_pipeline(StandardScaler(), network).fit(fit_on, y_fit)
    found = model.score(see, y_see)
    assert found > least and found > oracle.score(see, y_see) - 0.03


WRONG = [
    ({"hidden": 10}, TypeError, "hidden must list"),
    ({"hidden": (0,)}, ValueError, "hidden must be at least 1"),
    ({"hidden": ("a",)}, TypeError, "hidden must be a whole number"),
    ({"activation": "step"}, ValueError, "activation must be one of"),
    ({"activation": 3}, TypeError, "activation must be a function"),
    ({"alpha": -1.0}, ValueError, "alpha must be at least 0"),
    ({"tol": None}, TypeError, "tol must be a number"),
    ({"validation_fraction": 1.0}, ValueError, "validation_fraction must be less than 1"),
    ({"patience": 0}, ValueError, "patience must be at least 1"),
    ({"max_steps": 0}, ValueError, "max_steps must be at least 1"),
    ({"early_stopping": "yes"}, TypeError, "early_stopping must be True or False"),
    ({"method": "adam"}, ValueError, "method"),
]


@pytest.mark.parametrize(("told", "error", "pattern"), WRONG, ids=[next(iter(told)) for told, _, _ in WRONG])
def test_a_wrong_parameter_gets_a_sentence(told, error, pattern):
    check_sentence(lambda: Regressor(**told).fit(X, Y), error, pattern)


def test_wrong_data_get_a_sentence():
    check_sentence(lambda: Classifier().fit(X, np.ones(40)), ValueError, "at least two classes")
    check_sentence(lambda: Regressor().fit(X, Y, sample_weight=np.zeros(40)), ValueError, "zero")
    stops = Regressor(early_stopping=True)
    check_sentence(lambda: stops.fit(X[:1].repeat(5, axis=0), np.ones(5)), ValueError, "at least 2 distinct samples")
    with pytest.raises(NotFittedError):
        Regressor().predict(X)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_example_of_the_page_runs(tmp_path):
    names = run_page("docs/sklearn.md", tmp_path)
    assert names["search"].best_score_ > 0.4
