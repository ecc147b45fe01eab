"""Buckets: small problems are filled up with points of weight zero, so that few numbers of points need a program."""

import equinox as eqx

from .._problem.integral import AbstractLoss, AbstractTerm, Loss
from .._problem.measures import Points


def bucket(count: int) -> int:
    """The next of four numbers per octave (..., 40, 48, 56, 64, 80, ...): at most a quarter more."""
    unit = 2 ** max(count.bit_length() - 3, 0)
    return -(-count // unit) * unit


def in_buckets(loss: AbstractLoss) -> AbstractLoss:
    """The same loss on fixed points filled up to a bucket.

    A program is compiled for a number of points, so that one point more would compile again. Copies of points with
    weight zero change no sum.
    """
    return Loss(tuple(_filled(term) for term in loss.terms))


def _filled(term: AbstractTerm) -> AbstractTerm:
    if not isinstance(term.over, Points):
        return term
    count = term.over.weights.shape[0]
    return eqx.tree_at(lambda term: term.over, term, term.over.filled(bucket(count) - count))
