"""The stall itself, stock against patched, in a custom loop and in ``model.fit``.

The forward pass is finite in float16, the gradient is not.

Stock (with the floor of 1) never takes a step; patched, the scale settles below 1 and the model trains.
"""

import numpy as np

import surfaces
from surfaces import KERAS_3, VERSION, tf, tf1

STEPS = 60


def overflowing_loss(w):
    """The float16 gradient of w is 8e7 / 8 * scale: it fits float16 from 2**-8 on down. The loss is finite."""
    x = tf.ones([8, 4], tf.float16)
    return tf.reduce_mean(tf.cast(tf.matmul(x, tf.cast(w, tf.float16)), tf.float32)) * 1e7


def custom_loop():
    surface = surfaces.surfaces("eager")["keras 3 function" if KERAS_3 else "keras function"](2.0**15, 2000)
    optimizer = surface.optimizer
    w = tf.Variable(tf.ones([4, 1]))
    if hasattr(type(optimizer), "build"):
        optimizer = type(optimizer)(surfaces.keras_sgd())
        optimizer.build([w])
    elif hasattr(optimizer, "_create_all_weights"):
        optimizer._create_all_weights([w])

    @tf.function
    def step():
        if VERSION < (1, 15):
            optimizer.minimize(lambda: overflowing_loss(w), [w])
            return
        with tf.GradientTape() as tape:
            loss = overflowing_loss(w)
            scaled = optimizer.scale_loss(loss) if KERAS_3 else optimizer.get_scaled_loss(loss)
        gradients = tape.gradient(scaled, [w])
        if not KERAS_3:
            gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(list(zip(gradients, [w])))

    for _ in range(STEPS):
        step()
    return float(surfaces.variables_of(optimizer)[0].numpy()), w.numpy()


def model_fit():
    def huge(label, prediction):
        return 1.5e5 * tf.square(tf.cast(prediction, tf.float32) - tf.cast(label, tf.float32))

    precision = tf.keras.mixed_precision
    (precision.set_global_policy if VERSION >= (2, 4) else precision.experimental.set_policy)("mixed_float16")
    layer = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", input_shape=(1,))
    model = tf.keras.Sequential([layer])
    model.compile(optimizer=tf.keras.optimizers.SGD(1e-6), loss=huge)
    data = np.full((STEPS, 1), 1.0, "float32"), np.full((STEPS, 1), 2.0, "float32")
    model.fit(*data, batch_size=1, epochs=1, verbose=0)
    optimizer = model.optimizer
    if KERAS_3:
        scale = optimizer.dynamic_scale.numpy()
    else:
        scale = optimizer.loss_scale() if callable(optimizer.loss_scale) else optimizer.loss_scale
    return float(tf.keras.backend.get_value(scale) if not KERAS_3 else scale), model.get_weights()[0]


def main():
    surfaces.start("eager")
    # Keras has no policy mixed_float16 before TF 2.1.
    trainings = [custom_loop] + ([model_fit] if VERSION >= (2, 1) else [])
    for train in trainings:
        scale, weights = train()
        is_stuck = np.all(weights == 1.0) and scale == 1.0
        if is_stuck == KERAS_3:
            surfaces.fail("stock %s: scale %g, weights %s" % (train.__name__, scale, weights.ravel()))
    import tfls_patch

    for train in trainings:
        scale, weights = train()
        if not (2.0**-14 <= scale < 1 and np.all(weights != 1.0) and np.all(np.isfinite(weights))):
            surfaces.fail("patched %s: scale %g, weights %s" % (train.__name__, scale, weights.ravel()))
    print("OK", [train.__name__ for train in trainings], tfls_patch.status().min_scale)


if __name__ == "__main__":
    main()
