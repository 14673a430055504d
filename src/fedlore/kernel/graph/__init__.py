"""Knowledge as a graph: one compiler, whose backends emit a graph, expect one, or compute it."""
