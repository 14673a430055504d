"""How everything that is shown looks: style, palette, plots, page parts."""
