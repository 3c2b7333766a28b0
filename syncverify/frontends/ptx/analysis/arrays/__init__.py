"""Which bytes of shared memory an access may touch, and in which array they lie."""
