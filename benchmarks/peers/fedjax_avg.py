"""FedJAX: its federated averaging, with weight decay in the client optimizer."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import fedjax  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
from fedjax.algorithms import fed_avg  # noqa: E402
from workloads import BATCH, DECAY, EPOCHS, LR, MOMENTUM, Clock, asked  # noqa: E402

WORKLOAD = asked()


def logits(params, x):
    h = x
    if WORKLOAD.images:
        for weight, bias, pad in ((*params[:2], 2), (*params[2:4], 0)):
            h = jax.lax.conv(h, weight, (1, 1), [(pad, pad)] * 2) + bias[:, None, None]
            h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
            h = jax.nn.relu(h)
        h, params = h.reshape(len(h), -1), params[4:]
    for i in range(0, len(params), 2):
        h = h @ params[i].T + params[i + 1]
        h = jax.nn.relu(h) if i + 2 < len(params) else h
    return h


def loss(params, batch, rng):
    return optax.softmax_cross_entropy_with_integer_labels(logits(params, batch["x"]), batch["y"])


def main() -> None:
    x, y = WORKLOAD.data()
    params = [jnp.asarray(w) for w in WORKLOAD.weights()]
    data = {i: fedjax.ClientDataset({"x": x[i], "y": y[i]}) for i in range(WORKLOAD.clients)}
    sgd = optax.chain(optax.add_decayed_weights(DECAY), optax.sgd(LR, momentum=MOMENTUM))
    algorithm = fed_avg.federated_averaging(
        fedjax.grad(loss),
        fedjax.optimizers.create_optimizer_from_optax(sgd),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(batch_size=BATCH, num_epochs=EPOCHS, seed=0),
    )
    state, clock = algorithm.init(params), Clock()
    key = jax.random.PRNGKey(0)
    for round in range(WORKLOAD.rounds):
        cohort = WORKLOAD.cohort_of(round)
        keys = jax.random.split(jax.random.fold_in(key, round), len(cohort))
        clients = [(str(i).encode(), data[i], keys[j]) for j, i in enumerate(cohort)]
        state, _ = algorithm.apply(state, clients)
        jax.block_until_ready(state.params)
        clock.lap()
    some = {"x": x[:20].reshape(-1, *x.shape[2:]), "y": y[:20].reshape(-1)}
    clock.tell(float(np.mean(loss(state.params, some, None))))


if __name__ == "__main__":
    main()
