"""Simple polygons cut into triangles, by clipping one ear after another."""

import numpy as np

ROUNDING = 4 * np.finfo(float).eps
"""Differences of two products below this share of their sizes are zero."""


def turn(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Twice the area of the triangle a, b, c: positive where it turns to the left, zero where it is flat."""
    u, v = b - a, c - a
    left, right = u[..., 0] * v[..., 1], u[..., 1] * v[..., 0]
    return np.where(abs(left - right) <= ROUNDING * (abs(left) + abs(right)), 0, left - right)


def area(vertices: np.ndarray) -> float:
    """The area within a polygon by the shoelace formula, positive where it turns to the left."""
    return float(np.sum(turn(vertices[0], vertices, np.roll(vertices, -1, axis=0)))) / 2


def crossing(vertices: np.ndarray) -> tuple[int, int] | None:
    """Two sides of a closed polygon that meet elsewhere than in the vertex of neighbours; None if it is simple."""
    k = len(vertices)
    a, b = vertices, np.roll(vertices, -1, axis=0)
    # On which side of the line through side i the two ends of side j lie.
    starts, ends = (np.sign(turn(a[:, None], b[:, None], point[None])) for point in (a, b))
    low, high = np.minimum(a, b), np.maximum(a, b)
    near = ((low[:, None] <= high[None]) & (low[None] <= high[:, None])).all(axis=-1)
    # Sides meet where the ends of neither lie strictly on one side of the other, and the boxes round them meet.
    across = starts * ends <= 0
    i, j = np.indices((k, k))
    follows = (j - i) % k == 1
    # Neighbours meet in a vertex; they meet elsewhere where the second goes back along the first.
    back = (b - a) @ (b - a).T < 0
    found = np.where(follows | follows.T, follows & back & (ends == 0), across & across.T & near & (i < j))
    return None if not found.any() else (int(np.argwhere(found)[0, 0]), int(np.argwhere(found)[0, 1]))


def _ear(corners: np.ndarray) -> int:
    """Of the corners whose triangle with both neighbours holds no other corner, the one with the best triangle."""
    k = len(corners)
    triangles = np.stack([np.roll(corners, 1, axis=0), corners, np.roll(corners, -1, axis=0)], axis=1)
    longest = np.max(np.sum((triangles - np.roll(triangles, -1, axis=1)) ** 2, axis=2), axis=1)
    shape = turn(*np.moveaxis(triangles, 1, 0)) / longest
    best = [int(i) for i in np.argsort(-shape) if shape[i] > 0]

    def depths(i: int) -> np.ndarray:
        """How deep every other corner lies in the triangle of corner i: positive inside, zero on the edge."""
        others = np.delete(corners, [(i - 1) % k, i, (i + 1) % k], axis=0)
        ends = np.roll(triangles[i], -1, axis=0)
        return np.min([turn(p, q, others) for p, q in zip(triangles[i], ends, strict=True)], axis=0)

    # Where rounding puts a corner on the edge of every ear, none is inside.
    tests = (lambda i: (depths(i) < 0).all(), lambda i: (depths(i) <= 0).all())
    ear = next((i for holds_none in tests for i in best if holds_none(i)), None)
    if ear is None:
        raise ValueError("vertices must be those of a simple polygon, but rounding leaves no triangle to cut from it.")
    return ear


def triangulate(vertices: np.ndarray) -> np.ndarray:
    """The triangles, of shape (count, 3, 2), of a simple polygon that turns to the left."""
    corners, triangles = vertices, []
    while len(corners) > 3:
        before, after = np.roll(corners, 1, axis=0), np.roll(corners, -1, axis=0)
        straight = turn(before, corners, after) == 0
        if straight.any():  # on the line through its neighbours, it is the corner of no triangle
            corners = np.delete(corners, np.argmax(straight), axis=0)
            continue
        ear = _ear(corners)
        triangles.append(np.stack([before[ear], corners[ear], after[ear]]))
        corners = np.delete(corners, ear, axis=0)
    return np.array([*triangles, corners])
