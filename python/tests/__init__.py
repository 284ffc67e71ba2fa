"""Tests of the package, by unittest. They make their run directories with the command: see runs.py."""
