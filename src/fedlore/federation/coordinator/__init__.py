"""The coordinator: the server process, the training, its state and its checks of uploads."""
