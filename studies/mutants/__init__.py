"""Small faults put into the source one at a time, and whether a test notices."""
