"""The abstract domain: affine sets and their widening."""
