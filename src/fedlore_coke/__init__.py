"""The case behind it all: simulated coking plants, their experts, and the blend planner."""

_FAULT = "coke"  # the code of errors raised here
