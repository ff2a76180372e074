"""One module for each range of versions. Open the one whose name holds yours.

==========================  =========================================================================================
module                      what it covers
==========================  =========================================================================================
``tf_1_14``, ``tf_1_15``    TensorFlow 1.x with ``tf.contrib``
``tf_2_0``                  ``tf.keras`` holds a ``DynamicLossScale``
``tf_2_1_to_2_3``           the same, and ``LossScaleGradientTape``
``tf_2_4``                  ``tf.keras`` has a state of its own
``tf_2_5_to_2_7``           gradients are all-reduced first; Keras becomes a package of its own
``tf_2_8_to_2_12``          one class for legacy optimizers, one for new ones
``tf_2_13_to_2_15``         Keras moved to ``keras.src``
``tf_2_16_to_2_22``         ``tf.compat.v1`` and the vendored copy of Keras 2
``tf_keras_2_15_to_2_22``   the package tf_keras (``TF_USE_LEGACY_KERAS=1``)
``keras_3``                 Keras 3 on TensorFlow, JAX and torch
==========================  =========================================================================================

Each of them holds ``VERSIONS``, the range that was tested, and ``TARGETS``: for each module of TensorFlow or Keras that
holds a floor, the functions to replace. What replaces them is in the modules with an underscore, shared by all ranges;
the rule itself is in `tfls_patch.scaling`.

How to add TensorFlow 2.23 (a new tf_keras or Keras 3 likewise):

1. Add its row to ``tests/matrix.py`` and run ``python3 dev.py matrix 2.23``. If the tests pass with one
   "newer than the newest tested" warning, the shape is the known one: raise the upper end of ``VERSIONS`` in the newest
   module here, rename the module if its name holds the end, and do the same in the table of `tfls_patch._registry`.
2. If it is refused, the message says which function differs. Copy the newest module to one for the new range, declare
   what differs, and add its row to that table.
3. ``python3 dev.py test`` says what was forgotten: rows must be contiguous, files named after their range, and every
   range in the matrix.
"""
