"""Schedules tried, timed and remembered; only proved ones."""

from syncverify.tune.fusions import candidates, on_gpu, tune

__all__ = ["candidates", "on_gpu", "tune"]
