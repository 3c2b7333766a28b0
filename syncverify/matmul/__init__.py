"""Matrix products with elementwise epilogues, for the tensor cores of Hopper."""

from __future__ import annotations

from syncverify.matmul.problem import Problem, grouped_product, product
from syncverify.matmul.schedule import Schedule

__all__ = ["Problem", "Schedule", "grouped_product", "product"]
