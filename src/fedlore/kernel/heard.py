"""How many numbers of the expert stand beside the features that a network or a member takes."""

HEARD = 4  # of a network of a number: see `Measured.heard`
HEARD_PLACES = 2  # of a network that keeps shapes: the middle of the range and the expert's place
HEARD_OF_ORDER = 3  # of a member that names a place: that place, middle and half width of the range
