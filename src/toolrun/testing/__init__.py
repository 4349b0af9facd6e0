"""Doubles for the tests of those who use toolrun."""
