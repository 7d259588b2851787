"""Tests of specctl.host; `contract` holds the cases that every kind of host must pass."""
