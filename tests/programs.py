"""Traced programs, walked."""


def inner(jaxpr):
    """Every equation of a program, those of its loops, branches and called programs included."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for part in value if isinstance(value, tuple | list) else (value,):
                part = getattr(part, "jaxpr", part)
                if hasattr(part, "eqns"):
                    yield from inner(part)
