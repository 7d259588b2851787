"""Tests of specctl.config; `builders` makes hosts for the tests of other parts (`from config.builders import make_host`)."""
