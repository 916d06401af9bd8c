"""Engines that can answer, one file each."""
