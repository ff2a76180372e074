"""The parts that every TensorFlow has: ``tf.compat.v1``'s loss scales and the optimizer around TF1 optimizers."""

from tfls_patch.patches import _construction, _fixed_loss_scale, _loss_scale_update, _scaling_methods

CORE = {
    "tensorflow.python.training.experimental.loss_scale": [
        _loss_scale_update.DYNAMIC_LOSS_SCALE,
        _construction.DYNAMIC_LOSS_SCALE,
        _fixed_loss_scale.FIXED_LOSS_SCALE,
    ],
    "tensorflow.python.training.experimental.loss_scale_optimizer": _scaling_methods.TF1_OPTIMIZER,
}

#: Keras's own copy of the dynamic loss scale, with the optimizer that holds it.
KERAS = [
    _loss_scale_update.KERAS_STATE,
    _construction.KERAS_STATE,
    _construction.KERAS_OPTIMIZER,
] + _scaling_methods.OPTIMIZER

#: The same with a second class for the new optimizers.
KERAS_WITH_V3 = KERAS + [_construction.KERAS_OPTIMIZER_V3] + _scaling_methods.OPTIMIZER_V3
