"""What tests of the gate share with those of fusions."""

from tests.fusion.conftest import unproved as unproved
