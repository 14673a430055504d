"""Watching a federation, from the files that it writes: pages, measures, lines of a terminal."""
