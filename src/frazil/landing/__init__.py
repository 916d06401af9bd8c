"""Slices of the log become Iceberg table snapshots."""

from frazil.landing.discover import AutoLanding
from frazil.landing.process import Landing
from frazil.landing.settings import LandingDeps, LandingSettings

__all__ = ["AutoLanding", "Landing", "LandingDeps", "LandingSettings"]
