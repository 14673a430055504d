"""The ground that everything stands on: tensors, rows, the loss, what travels."""
