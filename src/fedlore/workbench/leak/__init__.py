"""fedlore leak: attacks on what a coordinator sees, each against chance."""
