"""What knowledge means, once: read, evaluated, proved and compiled to graphs, with numpy alone."""
