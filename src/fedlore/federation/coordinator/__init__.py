"""The coordinator: the server process, the training, its state and its checks of uploads."""

_FAULT = "coordinator"  # the code of errors raised here
