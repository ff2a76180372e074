"""``stateless_apply`` of Keras 3 on JAX, jitted, in the form of `surfaces`: what the JAX trainer does in each step."""

import jax
import keras
import numpy as np

import surfaces
from reference import RATE

assert keras.backend.backend() == "jax"


class StatelessSurface(surfaces.Surface):
    kind = "function"
    is_bounded_by_stock = False
    divides = True

    def __init__(self, initial, interval):
        super(StatelessSurface, self).__init__(initial, interval)
        self.owner = self.optimizer = keras.optimizers.LossScaleOptimizer(
            keras.optimizers.SGD(RATE), initial_scale=initial, dynamic_growth_steps=interval
        )
        variables = [keras.Variable(start) for start in self.problem.starts]
        self.optimizer.build(variables)
        own = self.optimizer.variables
        self.places = [
            next(i for i, each in enumerate(own) if each is wanted)
            for wanted in (
                self.optimizer.dynamic_scale,
                self.optimizer.step_counter,
                self.optimizer.inner_optimizer.iterations,
            )
        ]
        self.start = [np.array(each.value) for each in own], [np.array(each.value) for each in variables]
        self.values, self.weights = self.start
        self.call = jax.jit(self.train)

    def train(self, values, weights, m):
        place = self.places[0]

        def scaled_loss(weights):
            return self.problem.loss(weights, m) * values[place]

        weights, values = self.optimizer.stateless_apply(values, jax.grad(scaled_loss)(weights), weights)
        return values, weights

    def step(self, m):
        self.values, self.weights = self.call(self.values, self.weights, np.array(m, np.float32))

    def full_state(self):
        scale, good, iterations = [self.values[place] for place in self.places]
        return float(scale), int(good), tuple(map(float, self.weights)), int(iterations)

    def restore(self, scale, good):
        self.values = list(self.values)
        for place, value in zip(self.places, (scale, good)):
            self.values[place] = np.array(value, self.start[0][place].dtype)

    def reset(self, scale):
        self.values, self.weights = self.start
        self.restore(scale, 0)
