"""The method on real numbers: five public sets."""
