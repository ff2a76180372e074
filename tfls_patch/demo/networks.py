"""The networks of the demonstrations, once in Keras layers and once in the operations of a TensorFlow 1 graph.

``worker.py`` runs by its path, where the package is not imported, and finds this file beside it. So nothing of the
package is imported here.
"""


class Dense(object):
    """One hidden layer and one output, which is to be the value of a digit; its error is a mean squared error."""

    def layers(self, keras, weights):
        """Returns the Keras layers, the input aside; their weights are like `weights`, in that order."""
        dense = keras.layers.Dense
        return [dense(weights[0].shape[1], activation="relu"), dense(1)]

    def output(self, tf, x, weights):
        """Returns what these layers give, computed in the type of `x` and `weights`."""
        hidden = tf.nn.relu(tf.matmul(x, weights[0]) + weights[1])
        return tf.matmul(hidden, weights[2]) + weights[3]

    def error(self, tf, output, y):
        """Returns what the training makes small, a float32 scalar. It does not overflow, whatever the output."""
        return tf.reduce_mean(tf.square(tf.cast(output, tf.float32) - y))


class Hourglass(object):
    """3x3 convolutions that halve an image twice and double it twice; one logit a pixel.

    The sigmoid and the focal loss that follow are float32. The loss of an image is a sum over its pixels, as it is
    usual for areas that are small: most pixels have none, and a mean would bury those that have.
    """

    STRIDES = (1, 2, 2, 1, 1, 1)
    DOUBLED_BEFORE = (3, 4)

    ALPHA, GAMMA = 0.25, 2.0
    #: Keeps logarithms finite. A sigmoid in float32 rounds to 1 from 17 on.
    MARGIN = 1e-6

    def layers(self, keras, weights):
        layers = []
        for number, (kernel, strides) in enumerate(zip(weights[::2], self.STRIDES)):
            if number in self.DOUBLED_BEFORE:
                layers.append(keras.layers.UpSampling2D(2))
            activation = "relu" if number + 1 < len(self.STRIDES) else None
            layers.append(
                keras.layers.Conv2D(kernel.shape[-1], 3, strides=strides, padding="same", activation=activation)
            )
        return layers + [keras.layers.Activation("sigmoid", dtype="float32")]

    def output(self, tf, x, weights):
        for number, strides in enumerate(self.STRIDES):
            kernel, bias = weights[2 * number : 2 * number + 2]
            if number in self.DOUBLED_BEFORE:
                x = _doubled(tf, x)
            x = tf.nn.conv2d(x, kernel, strides=[1, strides, strides, 1], padding="SAME") + bias
            x = tf.nn.relu(x) if number + 1 < len(self.STRIDES) else x
        return tf.sigmoid(tf.cast(x, tf.float32))

    def error(self, tf, output, y):
        probability = tf.clip_by_value(tf.cast(output, tf.float32), self.MARGIN, 1 - self.MARGIN)
        is_area = y > 0.5
        right = tf.where(is_area, probability, 1 - probability)
        weight = tf.where(is_area, self.ALPHA * tf.ones_like(y), (1 - self.ALPHA) * tf.ones_like(y))
        losses = -weight * tf.pow(1 - right, self.GAMMA) * tf.math.log(right)
        return tf.reduce_mean(tf.reduce_sum(losses, axis=[1, 2, 3]))


def _doubled(tf, x):
    """Returns images of twice the height and width; TensorFlow 1.14 has no ``tf.repeat``."""
    height, width, channels = x.shape.as_list()[1:]
    return tf.reshape(tf.tile(x[:, :, None, :, None, :], [1, 1, 2, 1, 2, 1]), [-1, 2 * height, 2 * width, channels])


NETWORKS = {"digits": Dense, "hourglass": Hourglass}
