"""Programs as users write them, for the tests of replay."""
