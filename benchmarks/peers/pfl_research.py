"""pfl-research: FederatedAveraging with its simulated backend, in one process."""

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from workloads import BATCH, DECAY, EPOCHS, LR, MOMENTUM, Clock, asked, torch_loss, torch_model

torch.set_num_threads(1)


class Net(torch.nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return self.body(x)

    def loss(self, inputs, targets, eval=False):
        return torch.nn.functional.cross_entropy(self.body(inputs), targets)

    def metrics(self, inputs, targets, eval=True):
        loss = self.loss(inputs, targets) * len(targets)
        return {"loss": Weighted(float(loss), len(targets))}


class Laps(TrainingProcessCallback):
    def __init__(self, clock):
        self._clock = clock

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        self._clock.lap()
        return False, Metrics()


def main() -> None:
    workload = asked()
    arrays = workload.data()
    x, y = (torch.from_numpy(part) for part in arrays)
    rng = np.random.default_rng(3)

    def make(user):
        order = torch.from_numpy(rng.permutation(workload.rows))
        return Dataset((x[int(user)][order], y[int(user)][order]), user_id=user)

    queue: list[str] = []

    def sample():
        if not queue:
            queue.extend(map(str, rng.permutation(workload.clients)))
        return queue.pop()

    data = FederatedDataset(make, sample)
    net = Net(torch_model(workload))
    model = PyTorchModel(
        model=net,
        local_optimizer_create=lambda p, lr: torch.optim.SGD(
            p, lr=lr, momentum=MOMENTUM, weight_decay=DECAY
        ),
        central_optimizer=torch.optim.SGD(net.parameters(), lr=1.0),
    )
    clock = Clock()
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=workload.rounds,
            evaluation_frequency=10**6,
            train_cohort_size=workload.cohort,
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(training_data=data, val_data=data),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_batch_size=BATCH, local_num_epochs=EPOCHS, local_learning_rate=LR
        ),
        callbacks=[Laps(clock)],
        send_metrics_to_platform=False,
    )
    clock.tell(torch_loss(net.body, *arrays))


if __name__ == "__main__":
    main()
