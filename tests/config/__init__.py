"""Tests of specctl.config. `config.builders` makes hosts for the tests of other parts."""
