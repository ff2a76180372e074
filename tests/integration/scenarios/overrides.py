"""Keras 3: a subclass may override any method, and gets and passes what it would in stock: scaled gradients.

And what the inner optimizer's options make of a gradient reaches no float16 weight if it is not finite.
"""

import sys

import keras
import numpy as np
import tensorflow as tf

import tfls_patch

Base = keras.mixed_precision.LossScaleOptimizer
seen = []


class OwnCommonApply(Base):
    def _common_apply(self, grads, trainable_variables=None):
        seen.append(grads[0])
        self._stateful_handle_finite_grads(grads, trainable_variables)


class OwnTfApply(Base):
    def _tf_apply(self, grads, trainable_variables=None):
        seen.append(grads[0])
        self._common_apply(grads, trainable_variables)


class OwnVerdict(Base):
    def check_finite(self, grads):
        seen.append(grads[0])
        return super(OwnVerdict, self).check_finite(grads)


class OwnFinite(Base):
    def _stateful_handle_finite_grads(self, grads, trainable_variables):
        seen.append(grads[0])
        quotients = [gradient / keras.ops.cast(self.dynamic_scale, gradient.dtype) for gradient in grads]
        self.inner_optimizer.apply(quotients, trainable_variables=trainable_variables)
        self.step_counter.assign_add(1)


class OwnFiniteSuper(Base):
    def _stateful_handle_finite_grads(self, grads, trainable_variables):
        seen.append(grads[0])
        super(OwnFiniteSuper, self)._stateful_handle_finite_grads(grads, trainable_variables)


class Refuses(Base):
    def check_finite(self, grads):
        return keras.ops.convert_to_tensor(False)


class Accepts(Base):
    """Takes every step, with 0 for what is not finite."""

    def check_finite(self, grads):
        return keras.ops.convert_to_tensor(True)

    def _stateful_handle_finite_grads(self, grads, trainable_variables):
        grads = [keras.ops.where(keras.ops.isfinite(each), each, 0.0) for each in grads]
        super(Accepts, self)._stateful_handle_finite_grads(grads, trainable_variables)


def after_a_step(cls, gradient, is_traced=False, scale=1024.0, dtype="float32", **options):
    """The weight, from 1, after one step of that scaled gradient, at a learning rate of a quarter; and the scale."""
    w = keras.Variable(1.0, dtype=dtype)
    optimizer = cls(keras.optimizers.SGD(0.25, **options), initial_scale=scale)
    optimizer.build([w])
    seen[:] = []
    step = tf.function(lambda value: optimizer.apply([value], [w])) if is_traced else None
    value = tf.constant(gradient, dtype)
    step(value) if step else optimizer.apply([value], [w])
    return float(np.array(w.value)), float(np.array(optimizer.dynamic_scale.value))


def check_overrides():
    for is_patched in (False, True):
        (tfls_patch.apply if is_patched else tfls_patch.revert)()
        for is_traced in (False, True):
            for scale in (1024.0, 0.25):
                for cls in (Base, OwnCommonApply, OwnTfApply, OwnVerdict, OwnFinite, OwnFiniteSuper):
                    found = after_a_step(cls, scale, is_traced, scale)
                    assert found == (0.75, scale), (is_patched, is_traced, cls, found)
                    assert cls is Base or seen and all(is_traced or float(each) == scale for each in seen), seen
            assert after_a_step(Refuses, 1024.0, is_traced) == (1.0, 512.0)
            assert after_a_step(Accepts, float("nan"), is_traced) == (1.0, 1024.0)


def check_options():
    """float16: 1000 under 2**-8 is 256000, which a bound beyond float16 lets pass, and a sum of two doubles."""
    tfls_patch.apply(min_scale=2.0**-20)
    beyond = [{"clipvalue": 7e4}, {"clipnorm": 1e6}, {"global_clipnorm": 1e6}, {}, {"clipnorm": 1.0, "large": True}]
    for is_traced in (False, True):
        for options in beyond:
            options = dict(options)
            is_clipped_to_fit = options.pop("large", False)
            weight, scale = after_a_step(Base, 1000.0, is_traced, 2.0**-8, "float16", **options)
            expected = (0.75, 2.0**-8) if is_clipped_to_fit else (1.0, 2.0**-9)
            assert (weight, scale) == expected, (options, is_traced, weight, scale)
        if "gradient_accumulation_steps" in keras.optimizers.SGD.__init__.__code__.co_varnames:
            found = after_a_step(Base, 156.25, is_traced, 2.0**-8, "float16", gradient_accumulation_steps=2)
            assert found == (1.0, 2.0**-9), found  # 40000, twice of which is beyond


def check_growth_switched_off():
    for interval in (0, -1):
        w = keras.Variable(1.0)
        optimizer = Base(keras.optimizers.SGD(0.25), initial_scale=1024.0, dynamic_growth_steps=interval)
        optimizer.build([w])
        for _ in range(4):
            optimizer.apply([tf.constant(1.0)], [w])
        assert float(np.array(optimizer.dynamic_scale.value)) == 1024.0


check_overrides()
check_options()
check_growth_switched_off()
print("OK", keras.__version__, sys.version_info[:2])
