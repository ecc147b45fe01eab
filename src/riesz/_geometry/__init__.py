"""What is known at theta: the linearisation, inner products, tangent spaces."""
