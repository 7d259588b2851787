"""Tests of specctl.doctor; `builders` makes facts."""
