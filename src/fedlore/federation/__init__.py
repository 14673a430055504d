"""A federation of sites on several machines: files, keys, processes, policies."""
